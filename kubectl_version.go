package main

import (
	"strings"
	_ "unsafe" // for linkname

	componentversion "k8s.io/component-base/version"
)

// Kubernetes' own build stamps its version into these variables with linker
// flags, which `go run` and `go install` can't give. kubectl without a version
// fails to print it, and names itself to servers as of no version.
//
//go:linkname componentGitVersion k8s.io/component-base/version.gitVersion
//go:linkname componentGitMajor k8s.io/component-base/version.gitMajor
//go:linkname componentGitMinor k8s.io/component-base/version.gitMinor
//go:linkname clientGitVersion k8s.io/client-go/pkg/version.gitVersion
//go:linkname clientGitCommit k8s.io/client-go/pkg/version.gitCommit
var (
	componentGitVersion, componentGitMajor, componentGitMinor string
	clientGitVersion, clientGitCommit                         string
)

// stampKubectl gives the built-in kubectl the version of the Kubernetes module
// that it comes from, unless the build has stamped it.
func stampKubectl() {
	version := currentVersion().Kubernetes
	if version == "" || !strings.Contains(componentGitVersion, "$Format") {
		return
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return
	}
	componentGitVersion, componentGitMajor, componentGitMinor = version, parts[0], parts[1]
	clientGitVersion, clientGitCommit = version, "kubecase"
	// It matches what was just set, the only thing that could fail.
	_ = componentversion.SetDynamicVersion(version)
}
