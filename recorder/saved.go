package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// CallsFile holds a derived trajectory: its head, then one Call per line, whose
// responses are in Bodies.
const CallsFile = "calls.jsonl"

// callsVersion is written to the head; files of another one are derived anew.
const callsVersion = 1

type callsHead struct {
	Version  int       `json:"version"`
	Episode  string    `json:"episode"`
	Captured time.Time `json:"captured"`
	Calls    int       `json:"calls"`
}

// SaveCalls writes a trajectory to dir and its responses to bodies, and sets the
// uses' ResponseDigest. The file appears whole or not at all.
func SaveCalls(dir string, t *Trajectory, bodies *Bodies) error {
	out := append(mustJSON(callsHead{callsVersion, t.Episode, t.Captured, len(t.Calls)}), '\n')
	for i := range t.Calls {
		call := t.Calls[i]
		call.Uses = make([]Use, len(t.Calls[i].Uses))
		for j := range call.Uses {
			u := &t.Calls[i].Uses[j]
			if err := u.storeResponse(bodies); err != nil {
				return fmt.Errorf("recorder: call %d: %w", i+1, err)
			}
			call.Uses[j] = *u
			call.Uses[j].Response = Response{}
		}
		line, err := json.Marshal(call)
		if err != nil {
			return fmt.Errorf("recorder: call %d: %w", i+1, err)
		}
		out = append(append(out, line...), '\n')
	}
	f, err := os.CreateTemp(dir, "calls-*.tmp")
	if err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	_, err = f.Write(out)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, CallsFile))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("recorder: %w", err), os.Remove(f.Name()))
	}
	return nil
}

func mustJSON(head callsHead) []byte {
	b, _ := json.Marshal(head) // strings, numbers and a time of a year that JSON has
	return b
}

func (u *Use) storeResponse(bodies *Bodies) error {
	if u.ResponseDigest != "" {
		return nil
	}
	body, err := json.Marshal(u.Response)
	if err != nil {
		return err
	}
	u.ResponseDigest, _, err = bodies.Put(body)
	return err
}

// LoadCalls reads what SaveCalls wrote. The responses stay where they are until
// LoadResponse: many episodes fit into memory, and what depends on a response alone can be
// worked out once per digest. The error is fs.ErrNotExist where nothing was saved.
func LoadCalls(dir string) (Trajectory, error) {
	path := filepath.Join(dir, CallsFile)
	f, err := os.Open(path)
	if err != nil {
		return Trajectory{}, fmt.Errorf("recorder: %w", err)
	}
	defer func() { _ = f.Close() }()
	var t Trajectory
	var head callsHead
	line := 0
	var bad error
	_, err = scanLines(f, func(text []byte) bool {
		line++
		if bad != nil {
			return true
		}
		if line == 1 {
			bad = json.Unmarshal(text, &head)
			if bad == nil && head.Version != callsVersion {
				bad = fmt.Errorf("version %d is not %d: derive the calls anew", head.Version, callsVersion)
			}
		} else {
			var c Call
			bad = json.Unmarshal(text, &c)
			t.Calls = append(t.Calls, c)
		}
		if bad != nil {
			bad = fmt.Errorf("%s:%d: %w", path, line, bad)
		}
		return true
	})
	t.Episode, t.Captured = head.Episode, head.Captured
	if err = errors.Join(err, bad); err == nil && head.Calls != len(t.Calls) {
		err = fmt.Errorf("%s: has %d calls and names %d: derive the calls anew", path, len(t.Calls), head.Calls)
	}
	if err != nil {
		return Trajectory{}, fmt.Errorf("recorder: %w", err)
	}
	return t, nil
}

// LoadResponse reads a use's response where it isn't loaded yet.
func (u *Use) LoadResponse(bodies *Bodies) error {
	if u.ResponseDigest == "" {
		return nil
	}
	r, err := bodies.Response(u.ResponseDigest)
	if err != nil {
		return err
	}
	u.Response = r
	return nil
}

// Response reads the response with that digest.
func (b *Bodies) Response(digest string) (Response, error) {
	body, err := b.Get(digest)
	if err != nil {
		return Response{}, err
	}
	var r Response
	if err := json.Unmarshal(body, &r); err != nil {
		return Response{}, fmt.Errorf("bodies: %s is no response: %w", digest, err)
	}
	return r, nil
}
