package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/kubecase/kubecase/fixtures"
)

const (
	metricsDir = "metrics/"
	blocksDir  = metricsDir + "blocks/"
	apiDir     = metricsDir + "api/"
)

// errNoSamples is that a case has no samples at all.
var errNoSamples = errors.New("no metrics were captured")

// load reads all samples of a case. Without any, the error is errNoSamples. With
// synthetic, counters and histograms are made of derived gauges.
func load(c *fixtures.Case, synthetic bool) (*store, error) {
	s := newStore()
	blocks := map[string]bool{}
	var problems []error
	found := false
	for _, name := range c.DocumentNames() {
		if rest, ok := strings.CutPrefix(name, blocksDir); ok {
			if ulid, _, nested := strings.Cut(rest, "/"); nested && !blocks[ulid] {
				blocks[ulid], found = true, true
				if err := s.readBlock(c, blocksDir+ulid+"/"); err != nil {
					problems = append(problems, fmt.Errorf("%s%s: %w", blocksDir, ulid, err))
				}
			}
			continue
		}
		s.live = s.live || name == apiDir+"buildinfo.json"
		if dir, file := path.Split(name); dir != metricsDir || !strings.HasSuffix(file, ".txt") {
			continue
		}
		found = true
		text, err := c.Document(name)
		if err == nil {
			err = s.readText(text)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%w%s", errNoSamples, c.WhyNot("metrics"))
	}
	if synthetic {
		if err := s.synthesize(c); err != nil {
			return nil, err
		}
	}
	s.seal()
	return s, nil
}

// readText adds the samples of OpenMetrics text, each of which must have its time.
func (s *store) readText(text []byte) error {
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	known := map[string]*series{} // by the text of a series, of which lines share most
	line := 0
	fail := func(err error) error {
		return fmt.Errorf("entry %d: %w; write OpenMetrics text with a time in seconds behind each value", line, err)
	}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line++
		if err != nil {
			return fail(err)
		}
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			s.family(name, func(f *family) { f.kind = string(kind) })
		case textparse.EntryHelp:
			name, help := p.Help()
			s.family(name, func(f *family) { f.help = string(help) })
		case textparse.EntryUnit:
			name, unit := p.Unit()
			s.family(name, func(f *family) { f.unit = string(unit) })
		case textparse.EntrySeries:
			text, at, value := p.Series()
			if at == nil {
				return fail(fmt.Errorf("%.200q has no time", text))
			}
			one := known[string(text)]
			if one == nil {
				var l labels.Labels
				p.Labels(&l)
				if one, err = s.of(l); err != nil {
					return err
				}
				known[string(text)] = one
			}
			if err := s.count(); err != nil {
				return err
			}
			one.floats = append(one.floats, point{*at, value})
		}
	}
}

// family changes what is known of a metric.
func (s *store) family(name []byte, change func(*family)) {
	f := s.families[string(name)]
	change(&f)
	s.families[string(bytes.Clone(name))] = f
}
