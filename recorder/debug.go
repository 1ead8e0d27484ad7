package recorder

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// debugged is a pod that was made to debug a node.
type debugged struct {
	node string
	argv []string
}

// debuggedBy is what a pod of `kubectl debug node/…` runs and where; false for any other pod.
func debuggedBy(pod map[string]any) (debugged, bool) {
	node := text(field(pod, "spec", "nodeName"))
	if node == "" || !strings.HasPrefix(text(field(pod, "metadata", "name")), "node-debugger-"+node+"-") {
		return debugged{}, false
	}
	out := debugged{node: node}
	containers, _ := field(pod, "spec", "containers").([]any)
	for _, c := range containers {
		for _, key := range []string{"command", "args"} {
			words, _ := field(c, key).([]any)
			for _, w := range words {
				out.argv = append(out.argv, text(w))
			}
		}
	}
	return out, true
}

// noticeDebug remembers the debugging pods that were made, by namespace/name. It sees the
// answer before its objects are dropped, as those of writes are.
func (d *deriver) noticeDebug(a *answer) {
	if a.Verb != "create" || a.ObjectRef == nil || a.ObjectRef.Resource != "pods" || a.subresource() != "" || a.Status() != 201 {
		return
	}
	for _, pod := range a.objects {
		if by, ok := debuggedBy(pod); ok && len(d.debugging) < 1<<12 {
			d.debugging[a.ObjectRef.Namespace+"/"+text(field(pod, "metadata", "name"))] = by
		}
	}
}

// onNode maps what a debugging pod showed of its node; false for any other request.
func (d *deriver) onNode(a *answer) ([]Use, bool) {
	by, ok := d.debugging[a.ObjectRef.Namespace+"/"+a.ObjectRef.Name]
	if !ok {
		return nil, false
	}
	argv, shown := by.argv, a.text
	if a.subresource() == "exec" {
		argv = a.query["command"]
	}
	if out, ok := a.Annotations[KeyOutput]; ok {
		shown = out
	}
	class := a.class
	if class == Delivered && strings.Contains(shown, notCapturedWords) {
		class = Unsupported
	}
	response := a.response()
	response.Text = shown
	if code, err := strconv.Atoi(a.Annotations[KeyExitCode]); err == nil {
		response.ExitCode = &code
	}
	var out []Use
	for _, component := range components(argv) {
		out = append(out, Use{Tool: CheckNodeServiceStatus, Args: map[string]string{"node": by.node, "component": component}, Class: class, Response: response})
	}
	if host, port, ok := parseProbe(argv); ok {
		service, namespace := splitHost(host, a.ObjectRef.Namespace)
		u := connectivity(a, namespace, service, port)
		u.Class, u.Response = class, response
		out = append(out, u)
	}
	if len(out) == 0 {
		out = append(out, Use{Tool: CheckNodeServiceStatus, Args: map[string]string{"node": by.node}, Class: class, Response: response})
	}
	return out, true
}

// notCapturedWords is how commands say that the case doesn't decide what they come to.
const notCapturedWords = "kubecase: not captured: "

// debugUses is what a debugging pod on a node showed; where nobody saw what it printed, T10 of
// the node as the write that making it is. The node is the one that was looked up; a
// refused pod's body is never read.
func debugUses(d *deriver, answers []*answer) []Use {
	shown := keep(answers, func(a *answer) bool {
		if a.ObjectRef == nil || a.class == Write {
			return false
		}
		_, made := d.debugging[a.ObjectRef.Namespace+"/"+a.ObjectRef.Name]
		return made && a.ObjectRef.Resource == "pods" && slices.Contains([]string{"attach", "log"}, a.subresource())
	})
	if len(shown) > 1 {
		// A container that has ended can't be attached to; its log is read instead.
		shown = slices.DeleteFunc(shown, func(a *answer) bool { return a.subresource() == "attach" && a.Annotations[KeyOutput] == "" })
	}
	if len(shown) > 0 {
		return d.plain(shown)
	}
	writes := keep(answers, func(a *answer) bool { return a.class == Write })
	for _, a := range answers {
		if len(writes) > 0 && a.ObjectRef != nil && a.ObjectRef.Resource == "nodes" && a.ObjectRef.Name != "" {
			return []Use{{Tool: CheckNodeServiceStatus, Args: map[string]string{"node": a.ObjectRef.Name}, Class: Write, Response: writes[0].response()}}
		}
	}
	for _, a := range answers {
		digest := a.Annotations[KeyRequestBody]
		if a.class != Write || digest == "" || d.o.Bodies == nil || a.ObjectRef == nil || a.ObjectRef.Resource != "pods" {
			continue
		}
		body, err := d.o.Bodies.Get(digest)
		var pod map[string]any
		if err != nil || json.Unmarshal(body, &pod) != nil {
			continue
		}
		if node := text(field(pod, "spec", "nodeName")); node != "" {
			return []Use{{Tool: CheckNodeServiceStatus, Args: map[string]string{"node": node}, Class: Write, Response: a.response()}}
		}
	}
	return nil
}

// nodeServices are the services of a node and of a control plane that processes are looked for by.
var nodeServices = regexp.MustCompile(`^\[?(kubelet|containerd|dockerd|docker|crio|kube-proxy|kube-scheduler|kube-apiserver|kube-controller-manager|etcd|coredns)`)

// components are the services of a node that a command asks about: systemctl's and
// journalctl's units, the runtime of crictl, the process that is looked for.
func components(argv []string) []string {
	var out []string
	add := func(name string) {
		name = strings.TrimSuffix(name, ".service")
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	words := argv
	for i, w := range argv {
		if slices.Contains([]string{"sh", "bash", "ash", "dash"}, path.Base(w)) {
			words = append(slices.Clone(argv[:i]), shellWords(strings.Join(argv[i+1:], " "))...)
			break
		}
	}
	processes := false
	for i := 0; i < len(words); i++ {
		var args []string
		for _, a := range words[i+1:] {
			if a == ";" || a == "|" || a == "&" || a == "||" || a == ">" {
				break
			}
			args = append(args, a)
		}
		switch path.Base(words[i]) {
		case "systemctl":
			plain := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
			if len(plain) < 2 {
				add("*")
			}
			for _, unit := range plain[min(1, len(plain)):] {
				add(unit)
			}
		case "service":
			if len(args) == 2 && args[1] == "status" {
				add(args[0])
			}
		case "journalctl":
			for j, a := range args {
				switch {
				case (a == "-u" || a == "--unit") && j+1 < len(args):
					add(args[j+1])
				case strings.HasPrefix(a, "--unit="):
					add(strings.TrimPrefix(a, "--unit="))
				case strings.HasPrefix(a, "-u") && len(a) > 2:
					add(a[2:])
				}
			}
		case "crictl", "ctr", "nerdctl":
			add("containerd")
		case "pgrep", "pidof":
			if len(args) > 0 {
				add(args[len(args)-1])
			}
		case "ps":
			processes = true
		case "grep", "egrep":
			for _, a := range args {
				if m := nodeServices.FindStringSubmatch(a); processes && m != nil {
					add(m[1])
				}
			}
		default:
			continue
		}
		i += len(args)
	}
	return out
}
