package recorder

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// connectivity is T6.
func connectivity(a *answer, namespace, service, port string) Use {
	args := map[string]string{"namespace": namespace, "service": service}
	if port != "" {
		args["port"] = port
	}
	u := Use{Tool: CheckConnectivity, Args: args, Class: a.class, Response: a.response()}
	if out, ok := a.Annotations[KeyOutput]; ok {
		u.Response.Text = out
	}
	if code, err := strconv.Atoi(a.Annotations[KeyExitCode]); err == nil {
		u.Response.ExitCode = &code
	}
	return u
}

// exec is T6 when the command in the container is a probe.
func (d *deriver) exec(a *answer) []Use {
	host, port, ok := parseProbe(a.query["command"])
	if !ok {
		return nil
	}
	service, namespace := splitHost(host, a.ObjectRef.Namespace)
	return []Use{connectivity(a, namespace, service, port)}
}

// proxy is T6 for services and pods, T10 for nodes, and what the path asks of a
// Prometheus or an Alertmanager behind it.
func (d *deriver) proxy(a *answer) []Use {
	ref := a.ObjectRef
	name, port := ref.Name, ""
	// [scheme:]name[:port], see apimachinery/pkg/util/net.SplitSchemeNamePort
	if parts := strings.Split(ref.Name, ":"); len(parts) == 3 {
		name, port = parts[1], parts[2]
	} else if len(parts) == 2 {
		name, port = parts[0], parts[1]
	}
	_, rest, _ := strings.Cut(a.path, "/"+ref.Name+"/proxy")
	rest = path.Clean("/" + rest)
	switch ref.Resource {
	case "nodes":
		component := "kubelet"
		if rest == "/logs" && a.query.Get("query") != "" {
			component = strings.Join(a.query["query"], ",")
		}
		u := Use{Tool: CheckNodeServiceStatus, Args: map[string]string{"node": name, "component": component}, Class: a.class, Response: a.response()}
		if a.class == Delivered && rest == "/logs" && a.text != "" {
			u.Response.Lines, u.Response.Text = logLines(a.text, false), ""
		}
		return []Use{u}
	case "pods":
		return append([]Use{connectivity(a, ref.Namespace, d.service(ref.Namespace, name), port)}, d.shim(a, rest)...)
	}
	return append([]Use{connectivity(a, ref.Namespace, name, port)}, d.shim(a, rest)...)
}

// probeFlags are the flags of the probing programs that take the next word.
var probeFlags = map[string][]string{
	"nc":     {"-w", "-p", "-s", "-i", "-q", "-X", "-x", "-T", "-G"},
	"telnet": {"-b", "-l", "-n"},
	"curl": {"-o", "-m", "-H", "-X", "-d", "-u", "-A", "-e", "-F", "-w", "-x", "-b", "-c", "-T", "-E", "-r", "--max-time", "--connect-timeout", "--header",
		"--request", "--data", "--output", "--retry", "--user", "--user-agent", "--resolve", "--cacert", "--cert", "--key", "--write-out", "--proxy", "--data-raw", "--interface"},
	"wget":      {"-O", "-T", "-t", "-o", "-U", "-P", "--header", "--timeout", "--tries", "--post-data"},
	"nslookup":  nil,
	"dig":       {"-p", "-t"},
	"host":      {"-t"},
	"getent":    nil,
	"ping":      {"-c", "-w", "-W", "-i", "-s"},
	"redis-cli": {"-h", "-p", "-a", "-n"}, "mysql": {"-h", "-P", "-u", "-e", "--host", "--port"}, "mysqladmin": {"-h", "-P", "-u", "--host", "--port"},
	"psql": {"-h", "-p", "-U", "-d", "-c"}, "pg_isready": {"-h", "-p", "-U", "-d", "-t"},
	"grpc_health_probe": {"-addr", "--addr"}, "grpcurl": {"-d", "-H", "-import-path", "-proto", "-max-time"},
}

var probeAliases = map[string]string{"ncat": "nc", "netcat": "nc"}

var devTCP = regexp.MustCompile(`/dev/tcp/([A-Za-z0-9._-]+)/([0-9]{1,5})`)

// parseProbe finds what a command in a container tries to reach.
func parseProbe(argv []string) (host, port string, ok bool) {
	if len(argv) == 0 || len(argv) > 1<<12 {
		return "", "", false
	}
	if program := path.Base(argv[0]); slices.Contains([]string{"sh", "bash", "ash", "dash", "zsh"}, program) {
		script := strings.Join(argv[1:], " ")
		if m := devTCP.FindStringSubmatch(script); m != nil {
			return m[1], m[2], true
		}
		argv = shellWords(script)
	}
	for i, word := range argv {
		program := path.Base(word)
		if alias := probeAliases[program]; alias != "" {
			program = alias
		}
		takes, known := probeFlags[program]
		// "host" and "dig" may be words of anything; a program comes first, or after one that runs it.
		if !known || i > 0 && (program == "host" || program == "dig") {
			continue
		}
		if host, port, ok = probeTarget(program, takes, argv[i+1:]); ok {
			return host, port, true
		}
	}
	return "", "", false
}

// shellWords splits a script roughly: quotes are dropped, and what ends a command ends a word.
func shellWords(script string) []string {
	return strings.FieldsFunc(strings.NewReplacer("|", " | ", ";", " ; ", "&&", " ; ", "$(", " ; ", ">", " > ").Replace(script), func(r rune) bool {
		return r == ' ' || r == '\t' || r == '\n' || r == '\'' || r == '"' || r == '`' || r == '(' || r == ')'
	})
}

func probeTarget(program string, takes, args []string) (host, port string, ok bool) {
	var words []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == ";" || arg == "|" || arg == ">" || arg == "&" {
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			words = append(words, arg)
			continue
		}
		name, value, glued := strings.Cut(arg, "=")
		if slices.Contains(takes, name) && !glued && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch {
		case program == "grpc_health_probe" && strings.HasSuffix(name, "-addr"):
			words = append(words, value)
		case program == "nc" || program == "curl" || program == "wget" || program == "telnet" || program == "grpcurl" || program == "ping" || program == "dig":
		case name == "-h" || name == "--host":
			host = value
		case name == "-p" && program != "mysql" && program != "mysqladmin" || name == "-P" || name == "--port":
			port = value
		}
	}
	switch program {
	case "redis-cli", "mysql", "mysqladmin", "psql", "pg_isready":
		return host, port, host != ""
	case "getent":
		return second(words), "", len(words) >= 2
	case "nslookup", "dig", "host", "ping":
		if len(words) == 0 {
			return "", "", false
		}
		return strings.TrimSuffix(words[0], "."), "", true
	case "nc", "telnet":
		if len(words) >= 2 {
			return words[0], words[1], true
		}
	}
	if len(words) == 0 {
		return "", "", false
	}
	target := words[0]
	if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "://") }); i >= 0 {
		target = words[i]
	}
	scheme := ""
	if !strings.Contains(target, "://") {
		target = "//" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" {
		return "", "", false
	}
	scheme, port = u.Scheme, u.Port()
	if port == "" && (program == "curl" || program == "wget") {
		port = "80"
		if scheme == "https" {
			port = "443"
		}
	}
	return u.Hostname(), port, true
}

func second(words []string) string {
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

// splitHost reads the names of cluster DNS: svc, svc.ns, svc.ns.svc[.cluster.local],
// and pod.svc.ns.svc of a StatefulSet's pod. Other hosts have no namespace of their own;
// addresses and names outside the cluster are kept whole.
func splitHost(host, namespace string) (service, ns string) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if net.ParseIP(host) != nil {
		return host, namespace
	}
	parts := strings.Split(host, ".")
	if i := slices.Index(parts, "svc"); i >= 2 && i <= 3 {
		return parts[i-2], parts[i-1]
	}
	switch len(parts) {
	case 1:
		return host, namespace
	case 2:
		return parts[0], parts[1]
	}
	return host, ""
}
