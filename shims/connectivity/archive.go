package connectivity

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"strings"
)

// archive is `tar cf - FILE...`, which is how kubectl cp reads: of the files that the case knows.
func archive(_ context.Context, c *container, name string, args []string, s streams) int {
	if len(args) < 3 || strings.TrimPrefix(args[0], "-") != "cf" || args[1] != "-" {
		return unknownOption(s, name, strings.Join(args, " "))
	}
	t := c.files()
	w := tar.NewWriter(s.stdout)
	code, stripped := 0, false
	for _, f := range args[2:] {
		full := absolute(c.workingDir(), f)
		all := []string{full}
		if t.dirs[full] {
			if !t.whole[full] {
				return notCaptured(s, "what the folder %s of container %q of pod %q holds", full, c.name, c.pod.Name)
			}
			all = nil
			for _, entry := range t.names(full) {
				all = append(all, full+"/"+entry)
			}
		}
		for _, one := range all {
			text, err := t.read(one)
			if isUndecided(err) {
				return notCaptured(s, "%v of container %q of pod %q", err, c.name, c.pod.Name)
			}
			if !stripped && strings.HasPrefix(f, "/") {
				fmt.Fprintln(s.stderr, "tar: Removing leading `/' from member names")
				stripped = true
			}
			if err != nil {
				fmt.Fprintf(s.stderr, "tar: %s: Cannot stat: No such file or directory\n", f)
				code = 2
				continue
			}
			header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(one, "/"), Mode: 0o644, Size: int64(len(text))}
			if err := w.WriteHeader(header); err != nil {
				return 2
			}
			if _, err := io.WriteString(w, text); err != nil {
				return 2
			}
		}
	}
	if err := w.Close(); err != nil {
		return 2
	}
	if code != 0 {
		fmt.Fprintln(s.stderr, "tar: Exiting with failure status due to previous errors")
	}
	return code
}
