package evaluator

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// The bootstrap. The seed is fixed and mixed with what is estimated, so that
// the same scores give the same bytes, in whichever order they come.
const (
	resamples     = 2000
	bootstrapSeed = 20260101
	// exactFlips is the number of differing cases up to which all sign flips are tried.
	exactFlips   = 16
	sampledFlips = 20000
)

// Dimension is something that figures are broken down by.
type Dimension string

// The dimensions.
const (
	ByAgent      Dimension = "agent"
	BySystem     Dimension = "system"
	ByCategory   Dimension = "category"
	ByDifficulty Dimension = "difficulty"
)

// Row is the figures of one combination of the dimensions asked for; the
// others are empty.
type Row struct {
	Agent      string `json:"agent,omitempty"`
	System     string `json:"system,omitempty"`
	Category   string `json:"category,omitempty"`
	Difficulty string `json:"difficulty,omitempty"`
	// Cases and Episodes count everything in the row, scored or not.
	Cases    int `json:"cases"`
	Episodes int `json:"episodes"`
	// Metrics has those that don't depend on a graph.
	Metrics map[Metric]Summary `json:"metrics"`
	// Process has those that do, by the graphs' source: the two are never mixed.
	Process map[Source]map[Metric]Summary `json:"process,omitempty"`
}

// Summary is a macro average over cases: repeated episodes of a case by the same
// agent are averaged first, so that each case weighs the same.
type Summary struct {
	Mean float64 `json:"mean"`
	// Low and High bound the 95 % percentile bootstrap interval over cases.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Scored of Cases entered the mean; if none did, the numbers are zero and mean nothing.
	Scored int `json:"scored"`
	Cases  int `json:"cases"`
	// Unscored counts episodes by reason.
	Unscored map[string]int `json:"unscored,omitempty"`
}

// Aggregate averages scores per combination of the dimensions, sorted by agent,
// system, category and difficulty. Without dimensions there is one row of all.
func Aggregate(scores []*Score, by ...Dimension) []Row {
	rows := map[[4]string][]*Score{}
	for _, s := range scores {
		var key [4]string
		for i, d := range []Dimension{ByAgent, BySystem, ByCategory, ByDifficulty} {
			if slices.Contains(by, d) {
				key[i] = [4]string{s.Agent, s.System, s.Category, s.Difficulty}[i]
			}
		}
		rows[key] = append(rows[key], s)
	}
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b [4]string) int { return slices.Compare(a[:], b[:]) })
	out := make([]Row, 0, len(keys))
	for _, key := range keys {
		members := rows[key]
		row := Row{Agent: key[0], System: key[1], Category: key[2], Difficulty: key[3], Episodes: len(members), Metrics: map[Metric]Summary{}}
		cases := map[string]bool{}
		sources := map[Source][]*Score{}
		for _, s := range members {
			cases[s.unit()] = true
			if s.Source != "" {
				sources[s.Source] = append(sources[s.Source], s)
			}
		}
		row.Cases = len(cases)
		label := strings.Join(key[:], "\x00")
		for _, m := range Metrics {
			if !m.ofGraph() {
				row.Metrics[m] = summarise(members, m, label)
				continue
			}
			for source, members := range sources {
				if row.Process == nil {
					row.Process = map[Source]map[Metric]Summary{}
				}
				if row.Process[source] == nil {
					row.Process[source] = map[Metric]Summary{}
				}
				row.Process[source][m] = summarise(members, m, label+"\x00"+string(source))
			}
		}
		out = append(out, row)
	}
	return out
}

// unit is what a resample draws: a case of a system.
func (s *Score) unit() string { return s.System + "\x00" + s.Case }

// caseMeans averages a metric per case, in the order of cases. Values are sorted
// before they are added, so that the sum doesn't depend on their order.
func caseMeans(scores []*Score, m Metric) (units []string, means []float64, unscored map[string]int) {
	values := map[string][]float64{}
	for _, s := range scores {
		mark, ok := s.Marks[m]
		switch {
		case !ok:
			mark = Mark{Unscored: "the score doesn't have this metric"}
			fallthrough
		case !mark.Scored():
			if unscored == nil {
				unscored = map[string]int{}
			}
			unscored[mark.Unscored]++
		default:
			// Agents that share a row are averaged per case like repeats.
			values[s.unit()] = append(values[s.unit()], mark.Value)
		}
	}
	units = slices.Sorted(maps.Keys(values))
	for _, unit := range units {
		slices.Sort(values[unit])
		means = append(means, mean(values[unit]))
	}
	return units, means, unscored
}

func summarise(scores []*Score, m Metric, label string) Summary {
	cases := map[string]bool{}
	for _, s := range scores {
		cases[s.unit()] = true
	}
	_, means, unscored := caseMeans(scores, m)
	out := Summary{Scored: len(means), Cases: len(cases), Unscored: unscored}
	if len(means) > 0 {
		out.Mean = mean(means)
		out.Low, out.High = bootstrap(means, source(label, string(m)))
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func source(labels ...string) *rand.Rand {
	h := fnv.New64a()
	for _, l := range labels {
		h.Write([]byte(l))
		h.Write([]byte{0xff})
	}
	return rand.New(rand.NewPCG(bootstrapSeed, h.Sum64()))
}

// bootstrap gives the 95 % percentile interval of the mean (Efron and
// Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).
func bootstrap(values []float64, r *rand.Rand) (low, high float64) {
	means := make([]float64, resamples)
	for b := range means {
		sum := 0.0
		for range values {
			sum += values[r.IntN(len(values))]
		}
		means[b] = sum / float64(len(values))
	}
	slices.Sort(means)
	const tail = resamples * 25 / 1000
	return means[tail], means[resamples-1-tail]
}

// Paired compares two agents over the cases that both were scored on.
type Paired struct {
	Metric Metric `json:"metric"`
	// Cases is how many cases both have.
	Cases int `json:"cases"`
	// OnlyA and OnlyB were scored for one of the two alone and are left out.
	OnlyA int     `json:"onlyA"`
	OnlyB int     `json:"onlyB"`
	MeanA float64 `json:"meanA"`
	MeanB float64 `json:"meanB"`
	// Difference is the mean of A minus B, Low and High its 95 % paired bootstrap interval.
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	// Higher, Lower and Equal count cases by the sign of A minus B.
	Higher int `json:"higher"`
	Lower  int `json:"lower"`
	Equal  int `json:"equal"`
	// SignP is the two-sided exact sign test's, PermutationP the two-sided
	// sign-flip permutation test's of the mean; both are 1 when nothing differs.
	SignP        float64 `json:"signP"`
	PermutationP float64 `json:"permutationP"`
}

// Compare pairs two agents' scores by case. For a metric of the graph, give the
// source whose graphs count; it is ignored for others.
func Compare(a, b []*Score, m Metric, of Source) Paired {
	if m.ofGraph() {
		other := func(s *Score) bool { return s.Source != of }
		a, b = slices.DeleteFunc(slices.Clone(a), other), slices.DeleteFunc(slices.Clone(b), other)
	}
	unitsA, meansA, _ := caseMeans(a, m)
	unitsB, meansB, _ := caseMeans(b, m)
	out := Paired{Metric: m, SignP: 1, PermutationP: 1}
	var left, right, differences []float64
	for i, unit := range unitsA {
		j, both := slices.BinarySearch(unitsB, unit)
		if !both {
			out.OnlyA++
			continue
		}
		left, right = append(left, meansA[i]), append(right, meansB[j])
		d := meansA[i] - meansB[j]
		differences = append(differences, d)
		switch cmp.Compare(d, 0) {
		case 1:
			out.Higher++
		case -1:
			out.Lower++
		default:
			out.Equal++
		}
	}
	out.Cases = len(differences)
	out.OnlyB = len(unitsB) - out.Cases
	if out.Cases == 0 {
		return out
	}
	out.MeanA, out.MeanB, out.Difference = mean(left), mean(right), mean(differences)
	out.Low, out.High = bootstrap(differences, source("paired", string(m)))
	out.SignP = signTest(out.Higher, out.Lower)
	out.PermutationP = permutationTest(differences, source("permutation", string(m)))
	return out
}

// signTest is the exact two-sided test that a difference is as often positive
// as negative, ties left out: twice the smaller binomial tail, at most 1.
func signTest(higher, lower int) float64 {
	n := higher + lower
	p := 0.0
	for i := range min(higher, lower) + 1 {
		all, _ := math.Lgamma(float64(n + 1))
		in, _ := math.Lgamma(float64(i + 1))
		out, _ := math.Lgamma(float64(n - i + 1))
		p += math.Exp(all - in - out - float64(n)*math.Ln2)
	}
	return min(1, 2*p)
}

// permutationTest is the two-sided sign-flip test of the mean difference: how
// many of all sign patterns give a sum at least as far from 0. Beyond exactFlips
// differing cases patterns are sampled, and the observed one counts as drawn
// (Phipson and Smyth, 2010), so that p is never 0.
func permutationTest(differences []float64, r *rand.Rand) float64 {
	differences = slices.DeleteFunc(slices.Clone(differences), func(d float64) bool { return d == 0 })
	observed, scale := 0.0, 0.0
	for _, d := range differences {
		observed += d
		scale += math.Abs(d)
	}
	least := math.Abs(observed) - 1e-12*scale // sums that are equal but for rounding count
	extreme := func(flip func(i int) bool) int {
		sum := 0.0
		for i, d := range differences {
			if flip(i) {
				d = -d
			}
			sum += d
		}
		if math.Abs(sum) >= least {
			return 1
		}
		return 0
	}
	hits := 0
	if n := len(differences); n <= exactFlips {
		for pattern := range 1 << n {
			hits += extreme(func(i int) bool { return pattern>>i&1 == 1 })
		}
		return float64(hits) / float64(int(1)<<n)
	}
	for range sampledFlips {
		hits += extreme(func(int) bool { return r.Uint64()&1 == 1 })
	}
	return float64(hits+1) / (sampledFlips + 1)
}
