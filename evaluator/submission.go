package evaluator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a submission, which comes from an agent.
const (
	// MaxAnswerBytes bounds the text that is searched; of a longer one, the end is.
	MaxAnswerBytes = 1 << 20
	maxNames       = 100
	maxCommands    = 1000
	maxNameBytes   = 1000
	// maxNesting bounds how deep an object may nest.
	maxNesting = 200
	// searchFactor bounds the search for an object to this many passes over the text.
	searchFactor = 64
)

// Submission is an agent's diagnosis. Absent fields are zero.
type Submission struct {
	Component string `json:"component,omitempty"`
	Fault     string `json:"fault,omitempty"`
	Category  string `json:"category,omitempty"`
	Layer     string `json:"layer,omitempty"`
	// Components are ranked, the most suspected first.
	Components []string `json:"components,omitempty"`
	// Detected says whether the agent thinks that something is wrong; nil: not said.
	Detected *bool `json:"detected,omitempty"`
	// Commands and Patches are a proposed repair; a patch is any JSON object.
	Commands []string          `json:"commands,omitempty"`
	Patches  []json.RawMessage `json:"patches,omitempty"`
	// InputTokens and OutputTokens are what the agent says that it used; nil: not said.
	InputTokens  *int64 `json:"inputTokens,omitempty"`
	OutputTokens *int64 `json:"outputTokens,omitempty"`
	// TimeToDetect and TimeToMitigate are in seconds since the episode began.
	TimeToDetect   *float64 `json:"timeToDetect,omitempty"`
	TimeToMitigate *float64 `json:"timeToMitigate,omitempty"`
	// Problems are the fields that could not be read; they count as not given.
	Problems []string `json:"problems,omitempty"`
}

// submissionKeys are the fields' names, each with the other names that it may have.
var submissionKeys = map[string]string{
	"component": "component", "faulty_component": "component", "fault_object": "component",
	"fault": "fault", "fault_type": "fault", "faultType": "fault", "root_cause": "fault",
	"category": "category", "fault_taxonomy": "category",
	"layer": "layer", "system_level": "layer",
	"components": "components", "ranked_components": "components",
	"detected": "detected", "anomaly": "detected",
	"commands": "commands", "patches": "patches",
	"inputTokens": "inputTokens", "input_tokens": "inputTokens",
	"outputTokens": "outputTokens", "output_tokens": "outputTokens",
	"timeToDetect": "timeToDetect", "time_to_detect": "timeToDetect",
	"timeToMitigate": "timeToMitigate", "time_to_mitigate": "timeToMitigate",
}

// ErrNoSubmission says that a text holds no JSON object with any of a
// submission's fields.
var ErrNoSubmission = errors.New("no JSON object with a diagnosis was found; print one like {\"component\": …, \"fault\": …} last")

// FindSubmission reads the last JSON object of a text that has any of a
// submission's fields. A field of a wrong type is a problem of the submission,
// not an error: an invalid field counts as wrong and never drops the case.
func FindSubmission(answer []byte) (*Submission, error) {
	if len(answer) > MaxAnswerBytes {
		answer = answer[len(answer)-MaxAnswerBytes:]
	}
	var found map[string]json.RawMessage
	budget := searchFactor * (len(answer) + 1)
	for i := 0; i < len(answer); {
		if answer[i] != '{' {
			i++
			continue
		}
		end, ok := skipJSON(answer, i, 0, &budget)
		if budget <= 0 {
			return nil, errors.New("the answer has too many braces that are never closed; print the diagnosis alone")
		}
		if !ok {
			i++
			continue
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(answer[i:end], &fields) == nil && known(fields) {
			found = fields
		}
		i = end
	}
	if found == nil {
		return nil, ErrNoSubmission
	}
	return submissionOf(found), nil
}

func known(fields map[string]json.RawMessage) bool {
	for key := range fields {
		if submissionKeys[key] != "" {
			return true
		}
	}
	return false
}

// skipJSON finds the end of the JSON value that begins at i, roughly: what it
// accepts is checked by encoding/json afterwards. It fails fast on what is no
// JSON, and takes no memory.
func skipJSON(b []byte, i, depth int, budget *int) (end int, ok bool) {
	space := func() {
		for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
			i++
			*budget--
		}
	}
	if *budget--; depth > maxNesting || *budget <= 0 || i >= len(b) {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		for i++; i < len(b); i++ {
			*budget--
			switch {
			case b[i] == '\\':
				i++
			case b[i] == '"':
				return i + 1, true
			case b[i] < ' ':
				return i, false
			}
		}
		return i, false
	case c == '{' || c == '[':
		closing := byte('}')
		if c == '[' {
			closing = ']'
		}
		i++
		if space(); i < len(b) && b[i] == closing {
			return i + 1, true
		}
		for {
			if space(); c == '{' {
				if i >= len(b) || b[i] != '"' {
					return i, false
				}
				if i, ok = skipJSON(b, i, depth+1, budget); !ok {
					return i, false
				}
				if space(); i >= len(b) || b[i] != ':' {
					return i, false
				}
				i++
				space()
			}
			if i, ok = skipJSON(b, i, depth+1, budget); !ok {
				return i, false
			}
			space()
			switch {
			case i < len(b) && b[i] == closing:
				return i + 1, true
			case i < len(b) && b[i] == ',':
				i++
			default:
				return i, false
			}
		}
	default:
		start := i
		for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] >= 'a' && b[i] <= 'z' || b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i] == 'E') {
			i++
			*budget--
		}
		return i, i > start
	}
}

func submissionOf(fields map[string]json.RawMessage) *Submission {
	s := &Submission{}
	keys := make([]string, 0, len(fields))
	for key := range fields {
		if submissionKeys[key] != "" {
			keys = append(keys, key)
		}
	}
	// A field's own name wins over its other names.
	slices.SortFunc(keys, func(a, b string) int {
		if own := submissionKeys[a] == a; own != (submissionKeys[b] == b) {
			if own {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	done := map[string]bool{}
	for _, key := range keys {
		field := submissionKeys[key]
		if done[field] || string(fields[key]) == "null" {
			continue
		}
		done[field] = true
		if problem := s.read(field, fields[key]); problem != "" {
			s.Problems = append(s.Problems, fmt.Sprintf("the field %q %s: it counts as not given", key, problem))
		}
	}
	return s
}

// read takes one field and says what is wrong with it.
func (s *Submission) read(field string, raw json.RawMessage) string {
	name := func(to *string) string {
		var v string
		if json.Unmarshal(raw, &v) != nil {
			return "is not a text"
		}
		if len(v) > maxNameBytes {
			return "is too long"
		}
		*to = v
		return ""
	}
	list := func(to *[]string, most, longest int) string {
		var v []string
		if json.Unmarshal(raw, &v) != nil {
			return "is not a list of texts"
		}
		if len(v) > most {
			return fmt.Sprintf("has more than %d entries", most)
		}
		if slices.ContainsFunc(v, func(s string) bool { return len(s) > longest }) {
			return "has an entry that is too long"
		}
		*to = v
		return ""
	}
	tokens := func(to **int64) string {
		var v int64
		if json.Unmarshal(raw, &v) != nil || v < 0 {
			return "is not a count"
		}
		*to = &v
		return ""
	}
	seconds := func(to **float64) string {
		var v float64
		if json.Unmarshal(raw, &v) != nil || v < 0 {
			return "is not a number of seconds"
		}
		*to = &v
		return ""
	}
	switch field {
	case "component":
		return name(&s.Component)
	case "fault":
		return name(&s.Fault)
	case "category":
		return name(&s.Category)
	case "layer":
		return name(&s.Layer)
	case "components":
		return list(&s.Components, maxNames, maxNameBytes)
	case "commands":
		return list(&s.Commands, maxCommands, 64<<10)
	case "patches":
		var v []json.RawMessage
		if json.Unmarshal(raw, &v) != nil || len(v) > maxCommands || slices.ContainsFunc(v, func(p json.RawMessage) bool { return len(p) == 0 || p[0] != '{' }) {
			return fmt.Sprintf("is not a list of at most %d JSON objects", maxCommands)
		}
		s.Patches = v
	case "detected":
		var v bool
		if json.Unmarshal(raw, &v) != nil {
			return "is not true or false"
		}
		s.Detected = &v
	case "inputTokens":
		return tokens(&s.InputTokens)
	case "outputTokens":
		return tokens(&s.OutputTokens)
	case "timeToDetect":
		return seconds(&s.TimeToDetect)
	case "timeToMitigate":
		return seconds(&s.TimeToMitigate)
	}
	return ""
}

// alarm tells whether the submission says that something is wrong; said is
// false when it says neither that nor the contrary.
func (s *Submission) alarm() (alarm, said bool) {
	if s == nil {
		return false, false
	}
	ranked := slices.ContainsFunc(s.Components, func(c string) bool { return !nothing(NormalComponent(c)) })
	if s.Detected != nil && *s.Detected || !nothing(NormalComponent(s.Component)) || !nothing(s.Fault) || ranked {
		return true, true
	}
	return false, s.Detected != nil || strings.TrimSpace(s.Component) != "" || strings.TrimSpace(s.Fault) != "" // "none" is said
}
