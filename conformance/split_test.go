package conformance

import (
	"errors"
	"strings"
)

// splitCommand splits a recorded command line into arguments. The recorder
// wrote down argument lists, quoting an argument only where it holds a space
// or a glob, so quotes count only at the start of an argument: the one in
//
//	kubectl patch deploy/frontend -p {"spec":{"replicas":1}}
//
// is part of the argument. Nothing is expanded, and no shell is involved.
func splitCommand(line string) ([]string, error) {
	var args []string
	for {
		line = strings.TrimLeft(line, " ")
		if line == "" {
			return args, nil
		}
		if quote := line[0]; quote == '\'' || quote == '"' {
			end := strings.IndexByte(line[1:], quote)
			if end < 0 {
				return nil, errors.New("unbalanced quote")
			}
			args, line = append(args, line[1:1+end]), line[2+end:]
			if line != "" && line[0] != ' ' {
				return nil, errors.New("text after a closing quote")
			}
			continue
		}
		arg, rest, _ := strings.Cut(line, " ")
		args, line = append(args, arg), rest
	}
}
