package connectivity

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubecase/kubecase/fixtures"
)

// tree are the files that a container is known to have, by clean absolute path. A file
// of which only the name is known has no content.
type tree struct {
	files map[string]*file
	dirs  map[string]bool
	// whole are the folders whose content is known whole.
	whole map[string]bool
}

type file struct {
	content   string
	undecided string
}

// files gathers what the pod's specification and the captured commands tell of the
// container's files.
func (c *container) files() *tree {
	t := &tree{files: map[string]*file{}, dirs: map[string]bool{"/": true, "/etc": true, "/tmp": true, "/dev": true, "/proc": true}, whole: map[string]bool{}}
	t.put("/dev/null", "")
	if c.host {
		return t
	}
	if !c.pod.Spec.HostNetwork {
		t.put("/etc/hosts", c.hosts())
		t.put("/etc/hostname", c.hostname()+"\n")
	}
	if text, ok := c.resolvConf(); ok {
		t.put("/etc/resolv.conf", text)
	}
	for _, mount := range c.spec.VolumeMounts {
		at := path.Clean("/" + mount.MountPath)
		for i := range c.pod.Spec.Volumes {
			if v := &c.pod.Spec.Volumes[i]; v.Name == mount.Name {
				c.mount(t, at, mount.SubPath, v)
			}
		}
	}
	runs, err := fixtures.ReadEntries[fixtures.CommandRun](c.Case, fixtures.CommandsDocument)
	if err != nil {
		return t
	}
	for _, r := range runs {
		if r.Namespace == c.Namespace && r.Pod == c.Pod && (r.Container == "" || r.Container == c.name) && len(r.Command) == 2 && r.Command[0] == "cat" && r.ExitCode == 0 && path.IsAbs(r.Command[1]) {
			t.put(path.Clean(r.Command[1]), r.Stdout)
		}
	}
	return t
}

func (t *tree) put(name, content string) {
	t.files[name] = &file{content: content}
	t.makeDirs(path.Dir(name))
}

func (t *tree) unknown(name, why string) {
	t.files[name] = &file{undecided: why}
	t.makeDirs(path.Dir(name))
}

func (t *tree) makeDirs(dir string) {
	for ; !t.dirs[dir]; dir = path.Dir(dir) {
		t.dirs[dir] = true
	}
}

// hosts is the file that the kubelet writes (pkg/kubelet/kubelet_pods.go, managedHostsFileContent).
func (c *container) hosts() string {
	var b strings.Builder
	b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
	host := c.hostname()
	if sub := c.pod.Spec.Subdomain; sub != "" {
		host = fmt.Sprintf("%s.%s.%s.svc.%s\t%s", host, sub, c.Namespace, clusterDomain, host)
	}
	for _, ip := range c.pod.Status.PodIPs {
		fmt.Fprintf(&b, "%s\t%s\n", ip.IP, host)
	}
	if len(c.pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range c.pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	return b.String()
}

// resolvConf is the file that the kubelet writes for pods that use the cluster's DNS.
func (c *container) resolvConf() (string, bool) {
	var search, options []string
	var servers []string
	switch policy := c.pod.Spec.DNSPolicy; {
	case policy == corev1.DNSClusterFirstWithHostNet, policy == corev1.DNSClusterFirst && !c.pod.Spec.HostNetwork:
		server := c.net.dnsServer()
		if server == "" {
			return "", false
		}
		servers = []string{server}
		search = []string{c.Namespace + ".svc." + clusterDomain, "svc." + clusterDomain, clusterDomain}
		options = []string{"ndots:5"}
	case policy == corev1.DNSNone:
	default:
		return "", false // the node's own
	}
	if d := c.pod.Spec.DNSConfig; d != nil {
		servers, search = append(servers, d.Nameservers...), append(search, d.Searches...)
		for _, o := range d.Options {
			text := o.Name
			if o.Value != nil {
				text += ":" + *o.Value
			}
			options = slices.DeleteFunc(options, func(known string) bool { return strings.HasPrefix(known, o.Name+":") || known == o.Name })
			options = append(options, text)
		}
	}
	var b strings.Builder
	if len(search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.String(), true
}

// mount adds a volume's files.
func (c *container) mount(t *tree, at, subPath string, v *corev1.Volume) {
	content := map[string]*file{}
	known := true
	switch {
	case v.ConfigMap != nil:
		known = c.configMapFiles(content, v.ConfigMap.Name, v.ConfigMap.Items)
	case v.Secret != nil:
		known = c.secretFiles(content, v.Secret.SecretName, v.Secret.Items)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			switch {
			case source.ConfigMap != nil:
				known = c.configMapFiles(content, source.ConfigMap.Name, source.ConfigMap.Items) && known
			case source.Secret != nil:
				known = c.secretFiles(content, source.Secret.Name, source.Secret.Items) && known
			case source.ServiceAccountToken != nil:
				content[source.ServiceAccountToken.Path] = &file{undecided: "the service account's token"}
			case source.DownwardAPI != nil:
				c.downwardFiles(content, source.DownwardAPI.Items)
			default:
				known = false
			}
		}
	case v.DownwardAPI != nil:
		c.downwardFiles(content, v.DownwardAPI.Items)
	default:
		t.makeDirs(at)
		return
	}
	if subPath != "" {
		if f := content[subPath]; f != nil {
			t.files[at] = f
			t.makeDirs(path.Dir(at))
		}
		return
	}
	t.makeDirs(at)
	t.whole[at] = known
	for name, f := range content {
		full := path.Join(at, path.Clean("/"+name))
		t.files[full] = f
		t.makeDirs(path.Dir(full))
	}
}

func (c *container) configMapFiles(into map[string]*file, name string, items []corev1.KeyToPath) bool {
	m, err := decode[corev1.ConfigMap](c.Case, configMaps, c.Namespace, name)
	if err != nil || m == nil {
		return false
	}
	all := map[string]string{}
	for key, value := range m.Data {
		all[key] = value
	}
	for key, value := range m.BinaryData {
		all[key] = string(value)
	}
	project(into, all, items)
	return true
}

func (c *container) secretFiles(into map[string]*file, name string, items []corev1.KeyToPath) bool {
	s, err := decode[corev1.Secret](c.Case, secrets, c.Namespace, name)
	if err != nil || s == nil {
		return false
	}
	all := map[string]string{}
	for key, value := range s.Data {
		all[key] = string(value)
	}
	project(into, all, items)
	return true
}

// project puts all keys, or the named ones at their paths.
func project(into map[string]*file, all map[string]string, items []corev1.KeyToPath) {
	if len(items) == 0 {
		for key, value := range all {
			into[key] = &file{content: value}
		}
		return
	}
	for _, item := range items {
		if value, ok := all[item.Key]; ok {
			into[item.Path] = &file{content: value}
		}
	}
}

func (c *container) downwardFiles(into map[string]*file, items []corev1.DownwardAPIVolumeFile) {
	for _, item := range items {
		if item.FieldRef == nil {
			into[item.Path] = &file{undecided: "a value that depends on the node"}
			continue
		}
		value, undecided := c.field(item.FieldRef.FieldPath)
		into[item.Path] = &file{value, undecided}
	}
}

// names are the entries of a folder, sorted.
func (t *tree) names(dir string) []string {
	seen := map[string]bool{}
	for _, all := range []map[string]bool{t.dirs, keys(t.files)} {
		for name := range all {
			if name != "/" && path.Dir(name) == dir {
				seen[path.Base(name)] = true
			}
		}
	}
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

func keys(m map[string]*file) map[string]bool {
	out := make(map[string]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}

// read gives a file's content. The error is fs.ErrNotExist where the case knows that there is
// none, errUndecided where it doesn't.
func (t *tree) read(name string) (string, error) {
	if f := t.files[name]; f != nil {
		if f.undecided != "" {
			return "", errUndecided{f.undecided}
		}
		return f.content, nil
	}
	if t.dirs[name] {
		return "", errIsDir
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if t.whole[dir] {
			return "", fs.ErrNotExist
		}
		if dir == "/" {
			return "", errUndecided{fmt.Sprintf("the file %s", name)}
		}
	}
}

var errIsDir = errors.New("is a directory")

// info is what a shell asks of a file.
type info struct {
	name string
	size int64
	dir  bool
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// ModTime implements fs.FileInfo; a case doesn't know.
func (i info) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (i info) Sys() any { return nil }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

func (t *tree) stat(name string) (info, error) {
	if t.dirs[name] {
		return info{name: path.Base(name), dir: true}, nil
	}
	if f := t.files[name]; f != nil {
		return info{name: path.Base(name), size: int64(len(f.content))}, nil
	}
	_, err := t.read(name)
	return info{}, err
}
