package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/mitigation"
	"github.com/kubecase/kubecase/fixtures"
)

const (
	// judgementFile keeps how a proposed repair was judged, in its episode's folder.
	judgementFile = "mitigation.json"
	// repairTime bounds one command of a repair.
	repairTime = 20 * time.Second
)

// judgement is how a proposed repair did.
type judgement struct {
	Mark evaluator.Mark `json:"mark"`
	// Failed are the conditions that don't hold after the repair.
	Failed []string `json:"failed,omitempty"`
	// Commands are what was run, and what each said.
	Commands []repairStep `json:"commands,omitempty"`
}

type repairStep struct {
	Command string `json:"command"`
	Output  string `json:"output,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
}

// judgeMitigation applies a submission's commands and patches to a private copy of
// the case and asks the truth's conditions of what is left. Nil: there is nothing to judge.
func (a *app) judgeMitigation(ctx context.Context, c *fixtures.Case, truth *evaluator.Truth, s *evaluator.Submission) (j *judgement, err error) {
	if truth.Mitigation == nil || s == nil || len(s.Commands)+len(s.Patches) == 0 {
		return nil, nil
	}
	var overlay *mitigation.Overlay
	r, err := a.newReplayWith(c, func(next http.Handler) http.Handler {
		overlay = mitigation.New(next)
		return overlay
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	j = &judgement{}
	var commands []mitigation.Command
	refuse := func(what string, err error) {
		j.Commands = append(j.Commands, repairStep{Command: cut(what, 500), Output: err.Error(), Failed: true})
	}
	for _, text := range s.Commands {
		parsed, err := mitigation.ParseCommands(text)
		if err != nil {
			refuse(text, err)
		}
		commands = append(commands, parsed...)
	}
	for _, patch := range s.Patches {
		command, err := mitigation.PatchCommand(patch)
		if err != nil {
			refuse(string(patch), err)
			continue
		}
		commands = append(commands, command)
	}
	for _, command := range commands {
		j.Commands = append(j.Commands, r.repair(ctx, command))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	var missing error
	j.Mark, j.Failed, err = truth.JudgeMitigation(ctx, func(resource, namespace, name string) []map[string]any {
		gvr, ok := servedResource(c, resource)
		if !ok {
			missing = fmt.Errorf("%s: the mitigation's type %q is none of the case's", truthFile, resource)
			return nil
		}
		objects, err := overlay.Objects(r.asEpisode(req), gvr, namespace, name)
		missing = errors.Join(missing, err)
		return objects
	})
	return j, errors.Join(err, missing)
}

// servedResource finds a resource of the case by its plural name, with its group
// where it isn't Kubernetes' own.
func servedResource(c *fixtures.Case, name string) (schema.GroupVersionResource, bool) {
	for _, r := range c.Resources() {
		if r.GVR.Resource == name || r.GVR.GroupResource().String() == name {
			return r.GVR, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// repair runs one command of a repair: the built-in kubectl, away from everything
// but the overlay.
func (r *replay) repair(ctx context.Context, c mitigation.Command) repairStep {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	command := exec.CommandContext(ctx, r.kubectl, c.Args...)
	command.Dir = r.dir
	command.Env = []string{"KUBECONFIG=" + filepath.Join(r.dir, "kubeconfig"), "HOME=" + r.dir, "TZ=UTC", "PATH=/nonexistent", "EDITOR=false"}
	command.Stdin = strings.NewReader(c.Stdin)
	out, err := command.CombinedOutput()
	return repairStep{Command: cut("kubectl "+strings.Join(c.Args, " "), 500), Output: cut(strings.TrimSpace(string(out)), 500), Failed: err != nil}
}

// keepJudgement writes how an episode's repair was judged beside its record.
func keepJudgement(dir string, j *judgement) error {
	if j == nil {
		return nil
	}
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, judgementFile), append(data, '\n'), 0o600)
}

// readJudgement reads it again; nil where there is none.
func readJudgement(dir string) (*judgement, error) {
	data, err := os.ReadFile(filepath.Join(dir, judgementFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := &judgement{}
	return j, json.Unmarshal(data, j)
}
