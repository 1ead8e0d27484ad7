package connectivity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// busyBox reports whether the container's tools speak as BusyBox' do: the captured probe
// shows it, or the image is known for it.
func (c *container) busyBox(p *fixtures.Probe) bool {
	if p != nil && p.Output != "" {
		return strings.Contains(p.Output, ") open") || strings.Contains(p.Output, "punt!") || strings.Contains(p.Output, "bad address")
	}
	return strings.Contains(c.spec.Image, "busybox") || strings.Contains(c.spec.Image, "alpine")
}

// undecided says what the case doesn't tell of a connection.
func undecided(s streams, err error) int { return notCaptured(s, "%v", err) }

// netcat is `nc -z HOST PORT`, in the words of OpenBSD's or BusyBox'.
func netcat(_ context.Context, c *container, name string, args []string, s streams) int {
	set, rest, unknown := options(args, "zvnu46kNq", "wi")
	if unknown != "" || has(set, 'k') {
		return unknownOption(s, name, cmp.Or(unknown, "-k"))
	}
	if len(rest) != 2 {
		return notCaptured(s, "what nc does without a host and a port")
	}
	host := rest[0]
	port, err := strconv.Atoi(rest[1])
	if err != nil || port < 1 || port > 65535 {
		fmt.Fprintf(s.stderr, "nc: port number invalid: %s\n", rest[1])
		return 1
	}
	protocol := "TCP"
	if has(set, 'u') {
		protocol = "UDP"
	}
	o, err := c.net.connect(host, port, protocol)
	if err != nil {
		return undecided(s, err)
	}
	if o.result == fixtures.ProbeOpen && !has(set, 'z') {
		return notCaptured(s, "what %s:%d says to a connection: only that it can be opened", host, port)
	}
	if o.result == fixtures.ProbeFailed {
		// The source keeps no more than that; the words of a failure aren't in it.
		fmt.Fprintln(s.stderr, strings.TrimRight(o.probe.Output, "\n"))
		return max(1, o.probe.ExitCode)
	}
	if o.probe != nil && o.probe.Host == host && slices.Contains(o.probe.Command, "nc") {
		fmt.Fprint(s.stderr, o.probe.Output)
		return o.probe.ExitCode
	}
	at := host
	if o.address != "" && o.address != host {
		at = fmt.Sprintf("%s (%s)", host, o.address)
	}
	lower := strings.ToLower(protocol)
	verbose := has(set, 'v')
	if c.busyBox(o.probe) {
		address := fmt.Sprintf("%s (%s:%d)", host, cmp.Or(o.address, host), port)
		switch o.result {
		case fixtures.ProbeOpen:
			if verbose {
				fmt.Fprintf(s.stderr, "%s open\n", address)
			}
			return 0
		case fixtures.ProbeRefused:
			fmt.Fprintf(s.stderr, "nc: %s: Connection refused\n", address)
		case fixtures.ProbeTimeout:
			fmt.Fprintf(s.stderr, "nc: %s: Operation timed out\n", address)
		case fixtures.ProbeUnresolved:
			fmt.Fprintf(s.stderr, "nc: bad address '%s'\n", host)
		}
		return 1
	}
	switch o.result {
	case fixtures.ProbeOpen:
		if verbose {
			fmt.Fprintf(s.stderr, "Connection to %s %d port [%s/*] succeeded!\n", at, port, lower)
		}
		return 0
	case fixtures.ProbeRefused:
		if verbose {
			fmt.Fprintf(s.stderr, "nc: connect to %s port %d (%s) failed: Connection refused\n", at, port, lower)
		}
	case fixtures.ProbeTimeout:
		if verbose {
			fmt.Fprintf(s.stderr, "nc: connect to %s port %d (%s) timed out: Operation now in progress\n", at, port, lower)
		}
	case fixtures.ProbeUnresolved:
		fmt.Fprintf(s.stderr, "nc: getaddrinfo for host \"%s\" port %d: Name or service not known\n", host, port)
	}
	return 1
}

func telnet(_ context.Context, c *container, name string, args []string, s streams) int {
	if len(args) != 2 || strings.HasPrefix(args[0], "-") {
		return unknownOption(s, name, strings.Join(args, " "))
	}
	port, err := strconv.Atoi(args[1])
	if err != nil {
		return unknownOption(s, name, args[1])
	}
	o, err := c.net.connect(args[0], port, "TCP")
	if err != nil {
		return undecided(s, err)
	}
	switch o.result {
	case fixtures.ProbeOpen:
		fmt.Fprintf(s.stdout, "Trying %s...\nConnected to %s.\nEscape character is '^]'.\n", cmp.Or(o.address, args[0]), args[0])
		return notCaptured(s, "what %s:%d says to a connection: only that it can be opened", args[0], port)
	case fixtures.ProbeUnresolved:
		fmt.Fprintf(s.stderr, "telnet: could not resolve %s/%d: Name or service not known\n", args[0], port)
	case fixtures.ProbeRefused:
		fmt.Fprintf(s.stdout, "Trying %s...\n", cmp.Or(o.address, args[0]))
		fmt.Fprintln(s.stderr, "telnet: Unable to connect to remote host: Connection refused")
	case fixtures.ProbeTimeout:
		fmt.Fprintf(s.stdout, "Trying %s...\n", cmp.Or(o.address, args[0]))
		fmt.Fprintln(s.stderr, "telnet: Unable to connect to remote host: Connection timed out")
	default:
		fmt.Fprint(s.stderr, o.probe.Output)
	}
	return 1
}

// ping tells whether a name resolves; echoes of ICMP aren't in a case.
func ping(_ context.Context, c *container, name string, args []string, s streams) int {
	_, rest, unknown := options(args, "nq46", "cWwi")
	if unknown != "" || len(rest) != 1 {
		return unknownOption(s, name, unknown)
	}
	if _, err := c.net.resolve(rest[0]); err == errNoSuchName {
		if c.busyBox(nil) {
			fmt.Fprintf(s.stderr, "ping: bad address '%s'\n", rest[0])
			return 1
		}
		fmt.Fprintf(s.stderr, "ping: %s: Name or service not known\n", rest[0])
		return 2
	}
	return notCaptured(s, "whether %s answers to ping", rest[0])
}

// curlRequest is what curl was asked.
type curlRequest struct {
	url                                *url.URL
	text                               string
	method, write, output              string
	silent, showError, verbose, fail   bool
	headOnly, include, follow, discard bool
	maxTime                            time.Duration
}

var errOption = errors.New("unknown option")

func parseCurl(args []string) (*curlRequest, error) {
	r := &curlRequest{}
	value := func(i *int, inline string) string {
		if inline != "" {
			return inline
		}
		if *i++; *i < len(args) {
			return args[*i]
		}
		return ""
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			if r.text != "" {
				return nil, fmt.Errorf("%w: a second URL", errOption)
			}
			r.text = a
			continue
		}
		long, inline, _ := strings.Cut(a, "=")
		switch long {
		case "--silent":
			r.silent = true
		case "--show-error":
			r.showError = true
		case "--verbose":
			r.verbose = true
		case "--fail":
			r.fail = true
		case "--head":
			r.headOnly = true
		case "--include":
			r.include = true
		case "--location":
			r.follow = true
		case "--insecure", "--http1.1", "--compressed", "--no-progress-meter", "--globoff":
		case "--max-time", "--connect-timeout":
			r.timeout(value(&i, inline))
		case "--output":
			r.output = value(&i, inline)
		case "--write-out":
			r.write = value(&i, inline)
		case "--request":
			r.method = value(&i, inline)
		case "--url":
			r.text = value(&i, inline)
		case "--header", "--user-agent", "--retry", "--cacert":
			value(&i, inline)
		default:
			if strings.HasPrefix(a, "--") {
				return nil, fmt.Errorf("%w %s", errOption, a)
			}
			for j := 1; j < len(a); j++ {
				rest := a[j+1:]
				switch a[j] {
				case 's':
					r.silent = true
				case 'S':
					r.showError = true
				case 'v':
					r.verbose = true
				case 'f':
					r.fail = true
				case 'I':
					r.headOnly = true
				case 'i':
					r.include = true
				case 'L':
					r.follow = true
				case 'k', 'g', '4', '6', 'N', '#':
				case 'm':
					r.timeout(value(&i, rest))
					j = len(a)
				case 'o':
					r.output = value(&i, rest)
					j = len(a)
				case 'w':
					r.write = value(&i, rest)
					j = len(a)
				case 'X':
					r.method = value(&i, rest)
					j = len(a)
				case 'H', 'A':
					value(&i, rest)
					j = len(a)
				default:
					return nil, fmt.Errorf("%w -%c", errOption, a[j])
				}
			}
		}
	}
	if r.text == "" {
		return nil, fmt.Errorf("%w: no URL", errOption)
	}
	text := r.text
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "telnet" {
		return nil, fmt.Errorf("%w: the URL %s", errOption, r.text)
	}
	r.url = u
	r.method = cmp.Or(r.method, http.MethodGet)
	r.discard = r.output == "/dev/null"
	return r, nil
}

func (r *curlRequest) timeout(text string) {
	if f, err := strconv.ParseFloat(text, 64); err == nil && f > 0 && f < 1e6 {
		r.maxTime = time.Duration(f * float64(time.Second))
	}
}

func (r *curlRequest) port() int {
	if p, err := strconv.Atoi(r.url.Port()); err == nil {
		return p
	}
	switch r.url.Scheme {
	case "https":
		return 443
	case "telnet":
		return 23
	}
	return 80
}

// curl answers with captured HTTP, or with how the connection fails, as curl 7.88 words it.
func curl(_ context.Context, c *container, name string, args []string, s streams) int {
	r, err := parseCurl(args)
	if err != nil {
		return notCaptured(s, "how curl takes this: %v", err)
	}
	host, port := r.url.Hostname(), r.port()
	if r.output != "" && !r.discard && r.output != "-" {
		fmt.Fprintf(s.stderr, "curl: (23) Failure writing output to destination\n")
		return 23
	}
	telnet := r.url.Scheme == "telnet"
	if !telnet {
		answer, body, err := c.httpAnswer(r, host, port)
		if err != nil {
			return undecided(s, err)
		}
		if answer != nil {
			return c.printCurl(r, answer, body, s)
		}
	}
	o, err := c.net.connect(host, port, "TCP")
	if err != nil {
		return undecided(s, err)
	}
	code, message := 0, ""
	switch o.result {
	case fixtures.ProbeOpen:
		if telnet && !r.verbose {
			return 0 // its input ends at once, and what a server says first wasn't captured
		}
		return notCaptured(s, "what %s answers: only that a connection can be opened", r.url)
	case fixtures.ProbeUnresolved:
		code, message = 6, "Could not resolve host: "+host
	case fixtures.ProbeTimeout:
		code, message = 28, fmt.Sprintf("Connection timed out after %d milliseconds", r.maxTime.Milliseconds())
	default:
		code, message = 7, fmt.Sprintf("Failed to connect to %s port %d after 0 ms: Couldn't connect to server", host, port)
	}
	if !r.silent {
		fmt.Fprint(s.stderr, progressMeter)
	}
	if r.verbose {
		if code == 6 {
			fmt.Fprintf(s.stderr, "* %s\n* Closing connection 0\n", message)
		} else {
			fmt.Fprintf(s.stderr, "*   Trying %s:%d...\n* connect to %s port %d failed: Connection refused\n* %s\n* Closing connection 0\n",
				cmp.Or(o.address, host), port, cmp.Or(o.address, host), port, message)
		}
	}
	fmt.Fprint(s.stdout, r.writeOut(0, 0))
	if !r.silent || r.showError {
		fmt.Fprintf(s.stderr, "curl: (%d) %s\n", code, message)
	}
	return code
}

// progressMeter is what curl draws before anything has come.
const progressMeter = "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n" +
	"                                 Dload  Upload   Total   Spent    Left  Speed\n" +
	"\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0"

// writeOut fills in -w; times weren't measured and are zero.
func (r *curlRequest) writeOut(status, size int) string {
	if r.write == "" {
		return ""
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", "%%", "%",
		"%{http_code}", fmt.Sprintf("%03d", status), "%{response_code}", fmt.Sprintf("%03d", status), "%{size_download}", strconv.Itoa(size),
		"%{time_total}", "0.000000", "%{time_connect}", "0.000000", "%{time_namelookup}", "0.000000", "%{time_starttransfer}", "0.000000", "%{time_appconnect}", "0.000000",
		"%{url_effective}", r.url.String(), "%{num_redirects}", "0",
	).Replace(r.write)
}

func (c *container) printCurl(r *curlRequest, a *fixtures.HTTPAnswer, body []byte, s streams) int {
	head := responseHead(a, len(body))
	if r.verbose {
		fmt.Fprintf(s.stderr, "> %s %s HTTP/1.1\n> Host: %s\n> User-Agent: curl\n> Accept: */*\n> \n", r.method, cmp.Or(r.url.RequestURI(), "/"), r.url.Host)
		for _, line := range strings.Split(strings.TrimSuffix(head, "\r\n"), "\r\n") {
			fmt.Fprintf(s.stderr, "< %s\n", line)
		}
	}
	if r.fail && a.Status >= 400 {
		fmt.Fprint(s.stdout, r.writeOut(a.Status, 0))
		if !r.silent || r.showError {
			fmt.Fprintf(s.stderr, "curl: (22) The requested URL returned error: %d\n", a.Status)
		}
		return 22
	}
	if (r.headOnly || r.include) && !r.discard {
		fmt.Fprint(s.stdout, head)
	}
	if !r.headOnly && !r.discard {
		_, _ = s.stdout.Write(body) // a client that left needs no answer
	}
	fmt.Fprint(s.stdout, r.writeOut(a.Status, len(body)))
	return 0
}

// responseHead is the answer's status and headers.
func responseHead(a *fixtures.HTTPAnswer, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", a.Status, http.StatusText(a.Status))
	if a.ContentType != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", a.ContentType)
	}
	for _, name := range sortedNames(a.Headers) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, a.Headers[name])
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", size)
	return b.String()
}

func sortedNames(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// httpAnswer finds what a service or pod was captured to answer; nil when nothing was.
func (c *container) httpAnswer(r *curlRequest, host string, port int) (*fixtures.HTTPAnswer, []byte, error) {
	method := r.method
	if r.headOnly {
		method = http.MethodHead
	}
	found, err := c.net.resolve(host)
	if err != nil {
		return nil, nil, nil // connect says why
	}
	return findAnswer(c.Case, c.Clock, func(a *fixtures.HTTPAnswer) bool {
		if a.Method != "" && a.Method != method || cmp.Or(a.Scheme, "http") != r.url.Scheme || !samePath(a, r.url) || unreached(a) {
			return false
		}
		switch a.Kind {
		case "Service":
			s := found.service
			return s != nil && s.Name == a.Name && s.Namespace == a.Namespace && servicePort(s, a.Port) == port
		case "Pod":
			pod, err := decode[corev1.Pod](c.Case, pods, a.Namespace, a.Name)
			return err == nil && pod != nil && slices.Contains(found.addresses, pod.Status.PodIP) && podPort(c.Case, a, a.Port) == strconv.Itoa(port)
		}
		return false
	})
}

// servicePort is the number of a service's port that was captured by number or name.
func servicePort(s *corev1.Service, port string) int {
	for _, p := range s.Spec.Ports {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port || port == "" && len(s.Spec.Ports) == 1 {
			return int(p.Port)
		}
	}
	return 0
}

func samePath(a *fixtures.HTTPAnswer, u *url.URL) bool {
	captured, err := url.ParseQuery(a.Query)
	return err == nil && strings.Trim(a.Path, "/") == strings.Trim(u.Path, "/") && captured.Encode() == u.Query().Encode()
}

// findAnswer finds a captured answer, with its body in the time of the clock.
func findAnswer(c *fixtures.Case, k clock.Clock, match func(*fixtures.HTTPAnswer) bool) (*fixtures.HTTPAnswer, []byte, error) {
	answers, err := fixtures.ReadEntries[fixtures.HTTPAnswer](c, fixtures.AnswersDocument)
	if err != nil {
		return nil, nil, err
	}
	for i := range answers {
		a := &answers[i]
		if !match(a) {
			continue
		}
		body := []byte(a.Body)
		if a.File != "" {
			if body, err = c.Document("probes/" + a.File); err != nil {
				return nil, nil, err
			}
		}
		if strings.HasPrefix(a.ContentType, "application/json") {
			return a, clock.ShiftJSON(body, k.Offset()), nil
		}
		return a, clock.ShiftText(body, k.Offset()), nil
	}
	return nil, nil, nil
}

// wget is GNU's, for one URL that is printed.
func wget(_ context.Context, c *container, name string, args []string, s streams) int {
	var target string
	quiet, toStdout, spider, show := false, false, false, false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-q" || a == "--quiet" || a == "-nv":
			quiet = true
		case a == "-O-" || a == "-qO-" || a == "--output-document=-":
			toStdout = true
			quiet = quiet || a == "-qO-"
		case a == "-O" || a == "-qO":
			quiet = quiet || a == "-qO"
			if i++; i < len(args) && (args[i] == "-" || args[i] == "/dev/null") {
				toStdout = args[i] == "-"
			} else {
				return unknownOption(s, name, "-O")
			}
		case a == "--spider":
			spider = true
		case a == "-S" || a == "--server-response":
			show = true
		case a == "-T" || a == "-t":
			i++
		case strings.HasPrefix(a, "--timeout") || strings.HasPrefix(a, "--tries") || a == "--no-check-certificate":
		case strings.HasPrefix(a, "-"):
			return unknownOption(s, name, a)
		default:
			target = a
		}
	}
	r, err := parseCurl([]string{target})
	if target == "" || err != nil {
		return notCaptured(s, "what wget does with %q", target)
	}
	host, port := r.url.Hostname(), r.port()
	answer, body, err := c.httpAnswer(r, host, port)
	if err != nil {
		return undecided(s, err)
	}
	if answer != nil {
		if show {
			fmt.Fprint(s.stderr, "  "+strings.ReplaceAll(strings.TrimSuffix(responseHead(answer, len(body)), "\r\n\r\n"), "\r\n", "\n  ")+"\n")
		}
		if answer.Status >= 400 {
			if !quiet {
				fmt.Fprintf(s.stderr, "ERROR %d: %s.\n", answer.Status, http.StatusText(answer.Status))
			}
			return 8
		}
		if toStdout && !spider {
			_, _ = s.stdout.Write(body) // a client that left needs no answer
		}
		return 0
	}
	o, err := c.net.connect(host, port, "TCP")
	if err != nil {
		return undecided(s, err)
	}
	switch o.result {
	case fixtures.ProbeOpen:
		return notCaptured(s, "what %s answers: only that a connection can be opened", r.url)
	case fixtures.ProbeUnresolved:
		if c.busyBox(o.probe) {
			fmt.Fprintf(s.stderr, "wget: bad address '%s'\n", host)
			return 1
		}
		if !quiet {
			fmt.Fprintf(s.stderr, "Resolving %s (%s)... failed: Name or service not known.\nwget: unable to resolve host address '%s'\n", host, host, host)
		}
		return 4
	}
	if c.busyBox(o.probe) {
		fmt.Fprintf(s.stderr, "wget: can't connect to remote host (%s): Connection refused\n", cmp.Or(o.address, host))
		return 1
	}
	if !quiet {
		fmt.Fprintf(s.stderr, "Connecting to %s (%s)|%s|:%d... failed: Connection refused.\n", host, host, cmp.Or(o.address, host), port)
	}
	return 4
}
