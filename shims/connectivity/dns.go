package connectivity

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// nslookup is BIND's, or BusyBox', over the names of the case.
func nslookup(_ context.Context, c *container, name string, args []string, s streams) int {
	var rest []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			return unknownOption(s, name, a)
		}
		rest = append(rest, a)
	}
	server := c.net.dnsServer()
	if len(rest) != 1 || server == "" {
		return notCaptured(s, "what nslookup says without one name and the cluster's DNS service")
	}
	if net.ParseIP(rest[0]) != nil {
		found := c.net.reverse(rest[0])
		if found == "" {
			return notCaptured(s, "the name of %s", rest[0])
		}
		fmt.Fprintf(s.stdout, "%s\tname = %s.\n\n", arpa(rest[0]), found)
		return 0
	}
	found, err := c.net.resolve(rest[0])
	if err != nil && err != errNoSuchName {
		return undecided(s, err)
	}
	fmt.Fprintf(s.stdout, "Server:\t\t%s\nAddress:\t%s#53\n\n", server, server)
	if err == errNoSuchName {
		fmt.Fprintf(s.stdout, "** server can't find %s: NXDOMAIN\n\n", rest[0])
		return 1
	}
	for _, address := range found.addresses {
		fmt.Fprintf(s.stdout, "Name:\t%s\nAddress: %s\n", found.full, address)
	}
	fmt.Fprintln(s.stdout)
	return 0
}

// arpa is the name under which an IPv4 address is looked up (RFC 1035, 3.5).
func arpa(address string) string {
	p := strings.Split(address, ".")
	if len(p) != 4 {
		return address
	}
	return strings.Join([]string{p[3], p[2], p[1], p[0]}, ".") + ".in-addr.arpa"
}

// reverse finds the service that has a cluster IP.
func (n *network) reverse(address string) string {
	r := n.fixture.Resource(services)
	if r == nil {
		return ""
	}
	for _, o := range r.Objects {
		var s corev1.Service
		if json.Unmarshal(o.Raw, &s) == nil && s.Spec.ClusterIP == address {
			return s.Name + "." + s.Namespace + ".svc." + clusterDomain
		}
	}
	return ""
}

// dig knows +short; of its long form the header is the server's and wasn't captured. It
// searches no domains: names must be whole.
func dig(_ context.Context, c *container, name string, args []string, s streams) int {
	short, target := false, ""
	for _, a := range args {
		switch {
		case a == "+short":
			short = true
		case a == "A" || a == "+search" || a == "-4" || strings.HasPrefix(a, "+time") || strings.HasPrefix(a, "+tries"):
		case strings.HasPrefix(a, "+") || strings.HasPrefix(a, "-") || strings.HasPrefix(a, "@") || target != "":
			return unknownOption(s, name, a)
		default:
			target = a
		}
	}
	if !short || target == "" {
		return notCaptured(s, "what dig prints without +short")
	}
	if !strings.HasSuffix(strings.TrimSuffix(target, "."), ".svc."+clusterDomain) {
		return notCaptured(s, "how the name %q, which dig takes as it is, resolves", target)
	}
	found, err := c.net.resolve(target)
	if err == errNoSuchName {
		return 0 // dig prints nothing, and succeeds
	}
	if err != nil {
		return undecided(s, err)
	}
	for _, address := range found.addresses {
		fmt.Fprintln(s.stdout, address)
	}
	return 0
}

func getent(_ context.Context, c *container, name string, args []string, s streams) int {
	if len(args) != 2 || args[0] != "hosts" && args[0] != "ahosts" && args[0] != "ahostsv4" {
		return unknownOption(s, name, strings.Join(args, " "))
	}
	found, err := c.net.resolve(args[1])
	if err == errNoSuchName {
		return 2
	}
	if err != nil {
		return undecided(s, err)
	}
	for _, address := range found.addresses {
		if args[0] == "hosts" {
			fmt.Fprintf(s.stdout, "%-15s %s\n", address, found.full)
			continue
		}
		for i, kind := range []string{"STREAM", "DGRAM", "RAW"} {
			of := ""
			if i == 0 {
				of = " " + found.full
			}
			fmt.Fprintf(s.stdout, "%-15s %s%s\n", address, kind, of)
		}
	}
	return 0
}

func hostCommand(_ context.Context, c *container, name string, args []string, s streams) int {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return unknownOption(s, name, strings.Join(args, " "))
	}
	found, err := c.net.resolve(args[0])
	if err == errNoSuchName {
		fmt.Fprintf(s.stdout, "Host %s not found: 3(NXDOMAIN)\n", args[0])
		return 1
	}
	if err != nil {
		return undecided(s, err)
	}
	for _, address := range found.addresses {
		fmt.Fprintf(s.stdout, "%s has address %s\n", found.full, address)
	}
	return 0
}
