package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// kubectlVersions are the clients whose transcripts were recorded.
var kubectlVersions = []string{"1.34", "1.32"}

var sampleNotice sync.Once

// recordings returns the directory of the recordings: the one named by
// KUBECASE_CONFORMANCE, else the project's shared folder, else the sample that
// is committed.
func recordings(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBECASE_CONFORMANCE")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "conformance")
	}
	if _, err := os.Stat(filepath.Join(dir, "http", "index.tsv")); err != nil {
		sampleNotice.Do(func() { fmt.Printf("conformance: %v; using the committed sample\n", err) })
		dir = "testdata"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Exchange is one recorded HTTP request and its answer.
type Exchange struct {
	ID       string
	Category string
	Title    string
	As       string // subject
	Method   string
	Path     string
	Query    string
	Headers  map[string]string

	RequestBody string `json:"request_body"`

	Status          int
	ResponseHeaders map[string]string `json:"response_headers"`
	Size            int
	SHA256          string
	ElapsedMS       float64 `json:"elapsed_ms"`

	// Body is the exact text. Of binary and of huge bodies only a part was
	// kept: the first bytes, or the head, or keys and counts.
	Body           string
	BodyBinary     bool   `json:"body_binary"`
	BodyOmitted    bool   `json:"body_omitted"`
	BodyFirstBytes []byte `json:"body_first_bytes_b64"`
}

// date is when the real server answered, by its own Date header (whole seconds).
func (e *Exchange) date() (time.Time, bool) {
	date, err := http.ParseTime(e.ResponseHeaders["Date"])
	return date, err == nil
}

func loadExchanges(t *testing.T, dir string) []*Exchange {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "http", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	exchanges := make([]*Exchange, 0, len(names))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		exchange := new(Exchange)
		if err := json.Unmarshal(data, exchange); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		exchanges = append(exchanges, exchange)
	}
	return exchanges
}

// Transcript is one recorded kubectl command and what it printed.
type Transcript struct {
	ID      string // <version>/<folder>
	Version string // of kubectl, such as "1.34"
	Family  string // user and verb, or cold, or broken-apiservice
	As      string // subject
	Args    []string
	Stdin   string
	Cold    bool // ran with an empty discovery cache

	Stdout    string
	Stderr    string
	HasStderr bool // the stderr of cold transcripts was not recorded
	ExitCode  int
}

func loadTranscripts(t *testing.T, dir string) []*Transcript {
	t.Helper()
	var transcripts []*Transcript
	for _, version := range kubectlVersions {
		folders, err := filepath.Glob(filepath.Join(dir, "kubectl-"+version, "*", "cmd.txt"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(folders)
		for _, name := range folders {
			transcript, err := loadTranscript(version, filepath.Dir(name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			transcripts = append(transcripts, transcript)
		}
	}
	return transcripts
}

func loadTranscript(version, folder string) (*Transcript, error) {
	read := func(name string) (string, error) {
		data, err := os.ReadFile(filepath.Join(folder, name))
		return string(data), err
	}
	command, err := read("cmd.txt")
	if err != nil {
		return nil, err
	}
	base := filepath.Base(folder)
	transcript := &Transcript{ID: version + "/" + base, Version: version, As: "admin"}
	line, rest, _ := strings.Cut(command, "\n")
	args, err := splitCommand(line)
	if err != nil {
		return nil, err
	}
	if len(args) < 2 || args[0] != "kubectl" {
		return nil, fmt.Errorf("not a kubectl command: %s", line)
	}
	transcript.Args = args[1:]
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\n")
		switch {
		case line == "# stdin:":
			transcript.Stdin, rest = rest, ""
		case strings.HasPrefix(line, "# user: "):
			transcript.As = strings.TrimPrefix(line, "# user: ")
		case strings.HasPrefix(line, "# cold discovery cache"):
			transcript.Cold = true
		default:
			return nil, fmt.Errorf("unknown line %q", line)
		}
	}
	switch {
	case strings.HasPrefix(base, "cold-"):
		transcript.Family = "cold"
	case strings.HasPrefix(base, "broken-apiservice-"):
		transcript.Family = "broken-apiservice"
	default:
		transcript.Family = transcript.As + " " + transcript.Args[0]
	}
	if transcript.Stdout, err = read("stdout"); err != nil {
		return nil, err
	}
	if transcript.Stderr, err = read("stderr"); err == nil {
		transcript.HasStderr = true
	} else if !os.IsNotExist(err) {
		return nil, err
	}
	code, err := read("exit_code")
	if err != nil {
		return nil, err
	}
	transcript.ExitCode, err = strconv.Atoi(strings.TrimSpace(code))
	return transcript, err
}
