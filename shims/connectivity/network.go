package connectivity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
)

// clusterDomain is Kubernetes' default; a case doesn't say another.
const clusterDomain = "cluster.local"

var (
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// network is what a pod can be said to reach.
type network struct {
	fixture   *fixtures.Case
	namespace string
	pod       *corev1.Pod
}

func newNetwork(c *fixtures.Case, namespace string, pod *corev1.Pod) *network {
	return &network{c, namespace, pod}
}

// name is a host as the cluster's DNS would find it.
type name struct {
	// full is the name that it was found under, without a dot at its end.
	full      string
	addresses []string
	// service is nil for addresses and for names of pods.
	service *corev1.Service
}

// errUndecided says that the case can't tell.
type errUndecided struct{ why string }

func (e errUndecided) Error() string { return e.why }

// errNoSuchName says that the cluster has no such name.
var errNoSuchName = fmt.Errorf("no such name")

// parts cuts a host into a service's labels: [host.]service.namespace. It is false for
// names outside the cluster.
func (n *network) parts(host string) (endpoint, service, namespace string, inside bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, suffix := range []string{".svc." + clusterDomain, ".svc"} {
		if rest, ok := strings.CutSuffix(host, suffix); ok {
			labels := strings.Split(rest, ".")
			switch len(labels) {
			case 2:
				return "", labels[0], labels[1], true
			case 3:
				return labels[0], labels[1], labels[2], true
			}
			return "", "", "", false
		}
	}
	switch labels := strings.Split(host, "."); len(labels) {
	case 1:
		return "", labels[0], n.namespace, true
	case 2:
		// service.namespace, or endpoint.service of this namespace.
		if n.service(labels[1], n.namespace) != nil && n.service(labels[0], labels[1]) == nil {
			return labels[0], labels[1], n.namespace, true
		}
		return "", labels[0], labels[1], n.knowsNamespace(labels[1])
	case 3:
		return labels[0], labels[1], labels[2], n.knowsNamespace(labels[2])
	}
	return "", "", "", false
}

func (n *network) knowsNamespace(namespace string) bool {
	r := n.fixture.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	return r != nil && r.Find("", namespace) != nil || n.hasServices(namespace)
}

func (n *network) hasServices(namespace string) bool {
	r := n.fixture.Resource(services)
	return r != nil && slices.ContainsFunc(r.Objects, func(o *fixtures.Object) bool { return o.Namespace == namespace })
}

func (n *network) service(name, namespace string) *corev1.Service {
	s, err := decode[corev1.Service](n.fixture, services, namespace, name)
	if err != nil {
		return nil
	}
	return s
}

// resolve finds a host as the pod's resolver would; errNoSuchName when the cluster has
// none, errUndecided when the case can't tell.
func (n *network) resolve(host string) (*name, error) {
	if ip := net.ParseIP(host); ip != nil {
		return &name{full: host, addresses: []string{host}}, nil
	}
	if host == "localhost" {
		return &name{full: host, addresses: []string{"127.0.0.1"}}, nil
	}
	if n.pod.Spec.DNSPolicy == corev1.DNSDefault || n.pod.Spec.DNSPolicy == corev1.DNSNone {
		return nil, errUndecided{fmt.Sprintf("how %q resolves with the pod's DNS policy %s", host, n.pod.Spec.DNSPolicy)}
	}
	endpoint, service, namespace, inside := n.parts(host)
	if inside && n.pod.Spec.HostNetwork && n.pod.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		// pkg/kubelet/network/dns: such a pod has the node's own resolver.
		return nil, errUndecided{fmt.Sprintf("how %q resolves for the node %s itself", host, n.pod.Spec.NodeName)}
	}
	if !inside {
		return nil, errUndecided{fmt.Sprintf("how the name %q, which is outside the cluster, resolves", host)}
	}
	if covered, _ := n.fixture.Covers(services, namespace); !covered || n.fixture.Resource(services) == nil {
		return nil, errUndecided{fmt.Sprintf("the services of the namespace %q, by which %q would resolve", namespace, host)}
	}
	s := n.service(service, namespace)
	if s == nil {
		return nil, errNoSuchName
	}
	out := &name{full: service + "." + namespace + ".svc." + clusterDomain, service: s}
	switch {
	case endpoint != "":
		return n.endpoint(out, endpoint, s)
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, errUndecided{fmt.Sprintf("how %q, to which %q leads, resolves", s.Spec.ExternalName, host)}
	case s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone:
		out.addresses = s.Spec.ClusterIPs
		if len(out.addresses) == 0 {
			out.addresses = []string{s.Spec.ClusterIP}
		}
		return out, nil
	}
	ready, decided := n.endpoints(s)
	if !decided {
		return nil, errUndecided{fmt.Sprintf("the endpoints of the service %q", service)}
	}
	for _, e := range ready {
		out.addresses = append(out.addresses, e.Addresses...)
	}
	if len(out.addresses) == 0 {
		return nil, errNoSuchName
	}
	return out, nil
}

// endpoint is the name of one endpoint of a headless service.
func (n *network) endpoint(out *name, host string, s *corev1.Service) (*name, error) {
	ready, decided := n.endpoints(s)
	if !decided {
		return nil, errUndecided{fmt.Sprintf("the endpoints of the service %q", s.Name)}
	}
	for _, e := range ready {
		if e.Hostname != nil && *e.Hostname == host {
			out.full = host + "." + out.full
			out.addresses = e.Addresses
			return out, nil
		}
	}
	return nil, errNoSuchName
}

// endpoints are the ready endpoints of a service; not decided without EndpointSlices.
func (n *network) endpoints(s *corev1.Service) (ready []discoveryv1.Endpoint, decided bool) {
	r := n.fixture.Resource(endpointSlices)
	if covered, _ := n.fixture.Covers(endpointSlices, s.Namespace); r == nil || !covered {
		return nil, false
	}
	for _, o := range r.Objects {
		if o.Namespace != s.Namespace || o.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		var slice discoveryv1.EndpointSlice
		if json.Unmarshal(o.Raw, &slice) != nil {
			return nil, false
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready || s.Spec.PublishNotReadyAddresses {
				ready = append(ready, e)
			}
		}
	}
	return ready, true
}

// outcome is how a connection ends.
type outcome struct {
	result fixtures.ProbeResult
	// address that was connected to; empty when the source doesn't say.
	address string
	// probe is the captured one; nil when the objects decide.
	probe *fixtures.Probe
}

// connect says how a connection from the pod to a host's port ends; errUndecided when
// neither a captured probe nor the objects tell.
func (n *network) connect(host string, port int, protocol string) (outcome, error) {
	if p, err := n.probe(host, port, protocol); err != nil || p != nil {
		if err != nil {
			return outcome{}, err
		}
		o := outcome{result: p.Result, address: p.Address, probe: p}
		if o.address == "" {
			if found, err := n.resolve(host); err == nil {
				o.address = found.addresses[0]
			}
		}
		return o, nil
	}
	found, err := n.resolve(host)
	if err == errNoSuchName {
		return outcome{result: fixtures.ProbeUnresolved}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	undecided := errUndecided{fmt.Sprintf("whether %s answers at port %d: no probe of it was captured", host, port)}
	s := found.service
	if s == nil || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return outcome{}, undecided
	}
	listed := slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == port })
	ready, decided := n.endpoints(s)
	if listed && decided && len(ready) == 0 {
		// kube-proxy rejects connections to a service without endpoints.
		return outcome{result: fixtures.ProbeRefused, address: found.addresses[0]}, nil
	}
	return outcome{}, undecided
}

// probe finds a captured probe of the same place, made from this pod, from its node, or
// from anywhere, in this order.
func (n *network) probe(host string, port int, protocol string) (*fixtures.Probe, error) {
	probes, err := fixtures.ReadEntries[fixtures.Probe](n.fixture, fixtures.ConnectivityDocument)
	if err != nil {
		return nil, err
	}
	var best *fixtures.Probe
	rank := 0
	for i := range probes {
		p := &probes[i]
		if p.Port != port || !strings.EqualFold(cmp.Or(p.Protocol, "TCP"), protocol) || !n.samePlace(p, host) {
			continue
		}
		r := 0
		switch {
		case p.From.Pod != "" && p.From.Pod == n.pod.Name && p.From.Namespace == n.namespace:
			r = 4
		case p.From.Pod == "" && p.From.Node != "" && p.From.Node == n.pod.Spec.NodeName:
			r = 3
		case p.From.Node != "" && p.From.Node == n.pod.Spec.NodeName:
			r = 2
		case p.From.Node == "" && p.From.Pod == "":
			r = 1
		}
		if r > rank {
			best, rank = p, r
		}
	}
	return best, nil
}

// samePlace compares hosts by the service that they name, seen from where each is asked.
func (n *network) samePlace(p *fixtures.Probe, host string) bool {
	if strings.EqualFold(p.Host, host) && (p.From.Namespace == "" || p.From.Namespace == n.namespace || strings.Contains(host, ".")) {
		return true
	}
	from := *n
	if p.From.Namespace != "" {
		from.namespace = p.From.Namespace
	}
	e1, s1, ns1, in1 := from.parts(p.Host)
	e2, s2, ns2, in2 := n.parts(host)
	return in1 && in2 && net.ParseIP(host) == nil && e1 == e2 && s1 == s2 && ns1 == ns2
}

// dnsServer is the address of the cluster's DNS service; empty when the case has none.
func (n *network) dnsServer() string {
	for _, name := range []string{"kube-dns", "coredns"} {
		if s := n.service(name, "kube-system"); s != nil {
			return s.Spec.ClusterIP
		}
	}
	return ""
}
