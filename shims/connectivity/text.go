package connectivity

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// options reads single-letter flags. withValue are those that take one. It is false for
// others, of which the interpreter says that it doesn't know them.
func options(args []string, flags, withValue string) (set map[byte]string, rest []string, unknown string) {
	set = map[byte]string{}
	for len(args) > 0 {
		a := args[0]
		if a == "--" {
			return set, append(rest, args[1:]...), ""
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			args = args[1:]
			continue
		}
		args = args[1:]
		for i := 1; i < len(a); i++ {
			switch {
			case strings.IndexByte(withValue, a[i]) >= 0:
				value := a[i+1:]
				if value == "" && len(args) > 0 {
					value, args = args[0], args[1:]
				}
				set[a[i]] = value
				i = len(a)
			case strings.IndexByte(flags, a[i]) >= 0:
				set[a[i]] = ""
			default:
				return nil, nil, a
			}
		}
	}
	return set, rest, ""
}

func has(set map[byte]string, flag byte) bool { _, ok := set[flag]; return ok }

func unknownOption(s streams, name, option string) int {
	return notCaptured(s, "how %s takes the option %s", path.Base(name), option)
}

func cat(_ context.Context, c *container, name string, args []string, s streams) int {
	_, files, unknown := options(args, "u", "")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	if len(files) == 0 || len(files) == 1 && files[0] == "-" {
		if _, err := io.Copy(s.stdout, s.stdin); err != nil {
			return 1
		}
		return 0
	}
	code, _ := c.fileArgs("cat", files, s, func(_, text string) { _, _ = io.WriteString(s.stdout, text) })
	return code
}

func ls(_ context.Context, c *container, name string, args []string, s streams) int {
	set, files, unknown := options(args, "1aAd", "")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	if len(files) == 0 {
		files = []string{"."}
	}
	t := c.files()
	code := 0
	for _, f := range files {
		full := absolute(c.workingDir(), f)
		_, err := t.stat(full)
		switch {
		case isUndecided(err):
			return notCaptured(s, "%v of container %q of pod %q", err, c.name, c.pod.Name)
		case err != nil:
			fmt.Fprintf(s.stderr, "ls: cannot access '%s': No such file or directory\n", f)
			code = 2
		case !t.dirs[full] || has(set, 'd'):
			fmt.Fprintln(s.stdout, f)
		case !t.whole[full]:
			return notCaptured(s, "what the folder %s of container %q of pod %q holds", full, c.name, c.pod.Name)
		default:
			for _, entry := range t.names(full) {
				fmt.Fprintln(s.stdout, entry)
			}
		}
	}
	return code
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(text, "\n")+"\n", "\n")[:strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1]
}

// count reads -n N and the old -N.
func count(args []string) ([]string, string) {
	if len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0][1] >= '0' && args[0][1] <= '9' {
		return args[1:], args[0][1:]
	}
	return args, "10"
}

func head(_ context.Context, c *container, name string, args []string, s streams) int {
	args, lines := count(args)
	set, files, unknown := options(args, "q", "nc")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	if has(set, 'n') {
		lines = set['n']
	}
	n, err := strconv.Atoi(lines)
	if err != nil {
		return unknownOption(s, name, "-n "+lines)
	}
	code, _ := c.fileArgs("head", files, s, func(_, text string) {
		if bytes, err := strconv.Atoi(set['c']); has(set, 'c') && err == nil {
			_, _ = io.WriteString(s.stdout, text[:min(max(0, bytes), len(text))])
			return
		}
		all := splitLines(text)
		end := min(n, len(all))
		if n < 0 {
			end = max(0, len(all)+n)
		}
		_, _ = io.WriteString(s.stdout, strings.Join(all[:end], ""))
	})
	return code
}

func tailCommand(_ context.Context, c *container, name string, args []string, s streams) int {
	args, lines := count(args)
	set, files, unknown := options(args, "q", "n")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	if has(set, 'n') {
		lines = set['n']
	}
	from := strings.HasPrefix(lines, "+")
	n, err := strconv.Atoi(strings.TrimLeft(lines, "+-"))
	if err != nil {
		return unknownOption(s, name, "-n "+lines)
	}
	code, _ := c.fileArgs("tail", files, s, func(_, text string) {
		all := splitLines(text)
		start := max(0, len(all)-n)
		if from {
			start = min(len(all), max(0, n-1))
		}
		_, _ = io.WriteString(s.stdout, strings.Join(all[start:], ""))
	})
	return code
}

func grep(_ context.Context, c *container, name string, args []string, s streams) int {
	set, rest, unknown := options(args, "ivcnqwoEFhHsx", "em")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	pattern, given := set['e']
	if !given {
		if len(rest) == 0 {
			fmt.Fprintln(s.stderr, "usage: grep PATTERN [FILE]...")
			return 2
		}
		pattern, rest = rest[0], rest[1:]
	}
	if has(set, 'F') || path.Base(name) == "fgrep" {
		pattern = regexp.QuoteMeta(pattern)
	} else if !has(set, 'E') && path.Base(name) != "egrep" {
		pattern = basicPattern(pattern)
	}
	if has(set, 'w') {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if has(set, 'x') {
		pattern = `^(?:` + pattern + `)$`
	}
	if has(set, 'i') {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return notCaptured(s, "what grep makes of this pattern")
	}
	most, matched := -1, 0
	if m, err := strconv.Atoi(set['m']); err == nil {
		most = m
	}
	code, ok := c.fileArgs("grep", rest, s, func(file, text string) {
		n := 0
		for i, line := range splitLines(text) {
			line = strings.TrimSuffix(line, "\n")
			if re.MatchString(line) == has(set, 'v') || most >= 0 && n >= most {
				continue
			}
			n++
			if has(set, 'c') || has(set, 'q') {
				continue
			}
			prefix := ""
			if (len(rest) > 1 && !has(set, 'h') || has(set, 'H')) && file != "" {
				prefix = file + ":"
			}
			if has(set, 'n') {
				prefix += strconv.Itoa(i+1) + ":"
			}
			if has(set, 'o') && !has(set, 'v') {
				for _, m := range re.FindAllString(line, -1) {
					fmt.Fprintln(s.stdout, prefix+m)
				}
				continue
			}
			fmt.Fprintln(s.stdout, prefix+line)
		}
		if has(set, 'c') {
			fmt.Fprintln(s.stdout, n)
		}
		matched += n
	})
	switch {
	case !ok || code > 1:
		return code
	case code == 1:
		return 2
	case matched == 0:
		return 1
	}
	return 0
}

// basicPattern makes an extended pattern of a basic one (POSIX, 9.3): there \( \) \{ \} \| \+ \? are
// what ( ) { } | + ? are here.
func basicPattern(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		switch ch := p[i]; {
		case ch == '\\' && i+1 < len(p):
			i++
			if !strings.ContainsRune("(){}|+?", rune(p[i])) {
				b.WriteByte('\\')
			}
			b.WriteByte(p[i])
		case strings.IndexByte("(){}|+?", ch) >= 0:
			b.WriteByte('\\')
			b.WriteByte(ch)
		default:
			b.WriteByte(ch)
		}
	}
	return b.String()
}

func wc(_ context.Context, c *container, name string, args []string, s streams) int {
	set, files, unknown := options(args, "lwc", "")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	code, _ := c.fileArgs("wc", files, s, func(file, text string) {
		var out []string
		all := len(set) == 0
		for _, f := range []struct {
			flag byte
			n    int
		}{{'l', strings.Count(text, "\n")}, {'w', len(strings.Fields(text))}, {'c', len(text)}} {
			if !all && !has(set, f.flag) {
				continue
			}
			n := strconv.Itoa(f.n)
			if all {
				n = fmt.Sprintf("%7d", f.n)
			}
			out = append(out, n)
		}
		line := strings.Join(out, " ")
		if file != "" {
			line += " " + file
		}
		fmt.Fprintln(s.stdout, line)
	})
	return code
}

func sortCommand(_ context.Context, c *container, name string, args []string, s streams) int {
	set, files, unknown := options(args, "rnu", "")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	var all []string
	code, ok := c.fileArgs("sort", files, s, func(_, text string) { all = append(all, splitLines(text)...) })
	if !ok {
		return code
	}
	number := func(line string) float64 {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return 0
		}
		n, _ := strconv.ParseFloat(fields[0], 64) // as sort: what isn't a number is 0
		return n
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if has(set, 'r') {
			a, b = b, a
		}
		if has(set, 'n') {
			if x, y := number(a), number(b); x != y {
				return x < y
			}
		}
		return a < b
	})
	if has(set, 'u') {
		all = slices.Compact(all)
	}
	_, _ = io.WriteString(s.stdout, strings.Join(all, ""))
	return code
}

func uniq(_ context.Context, c *container, name string, args []string, s streams) int {
	set, files, unknown := options(args, "c", "")
	if unknown != "" {
		return unknownOption(s, name, unknown)
	}
	code, _ := c.fileArgs("uniq", files, s, func(_, text string) {
		all := splitLines(text)
		for i := 0; i < len(all); {
			n := 1
			for i+n < len(all) && all[i+n] == all[i] {
				n++
			}
			if has(set, 'c') {
				fmt.Fprintf(s.stdout, "%7d ", n)
			}
			_, _ = io.WriteString(s.stdout, all[i])
			i += n
		}
	})
	return code
}

func cut(_ context.Context, c *container, name string, args []string, s streams) int {
	set, files, unknown := options(args, "s", "df")
	fields, err := strconv.Atoi(set['f'])
	if unknown != "" || err != nil || fields < 1 {
		return unknownOption(s, name, unknown+" -f "+set['f'])
	}
	delimiter := "\t"
	if set['d'] != "" {
		delimiter = set['d']
	}
	code, _ := c.fileArgs("cut", files, s, func(_, text string) {
		for _, line := range splitLines(text) {
			parts := strings.Split(strings.TrimSuffix(line, "\n"), delimiter)
			switch {
			case len(parts) == 1 && !has(set, 's'):
				fmt.Fprintln(s.stdout, parts[0])
			case fields <= len(parts) && len(parts) > 1:
				fmt.Fprintln(s.stdout, parts[fields-1])
			case len(parts) > 1:
				fmt.Fprintln(s.stdout)
			}
		}
	})
	return code
}

func tr(_ context.Context, _ *container, name string, args []string, s streams) int {
	set, rest, unknown := options(args, "d", "")
	from := func(text string) string {
		return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00", "a-z", "abcdefghijklmnopqrstuvwxyz", "A-Z", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0-9", "0123456789").Replace(text)
	}
	if unknown != "" || len(rest) == 0 || len(rest) == 1 && !has(set, 'd') || strings.Contains(strings.Join(rest, ""), "[:") {
		return unknownOption(s, name, strings.Join(args, " "))
	}
	text, err := io.ReadAll(io.LimitReader(s.stdin, maxOutput))
	if err != nil {
		return 1
	}
	a := []rune(from(rest[0]))
	var b []rune
	if len(rest) > 1 {
		b = []rune(from(rest[1]))
	}
	out := strings.Map(func(r rune) rune {
		i := slices.Index(a, r)
		switch {
		case i < 0:
			return r
		case has(set, 'd') || len(b) == 0:
			return -1
		}
		return b[min(i, len(b)-1)]
	}, string(text))
	_, _ = io.WriteString(s.stdout, out)
	return 0
}

// tee copies to stdout; no file can be written.
func tee(_ context.Context, _ *container, _ string, args []string, s streams) int {
	code := 0
	for _, f := range args {
		if f != "/dev/null" && !strings.HasPrefix(f, "-") {
			fmt.Fprintf(s.stderr, "tee: %s: Read-only file system\n", f)
			code = 1
		}
	}
	_, _ = io.Copy(s.stdout, s.stdin)
	return code
}
