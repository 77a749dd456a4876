package alerts

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

var simulatedYears = flag.Float64("years", 0.5, "years that the simulation of false pages takes for each number")

const (
	simStep     = 30 * time.Second
	stepsPerDay = int(24 * time.Hour / simStep)
)

// poisson draws numbers of events. guide holds where to begin in the cumulative probabilities.
type poisson struct {
	below []float64
	guide [1 << 10]int
}

func newPoisson(mean float64) *poisson {
	p := &poisson{}
	sum := 0.0
	for k, term := 0, 1.0; float64(k) <= mean || term > 1e-14; k++ {
		log, _ := math.Lgamma(float64(k) + 1)
		term = math.Exp(float64(k)*math.Log(mean) - mean - log)
		sum += term
		p.below = append(p.below, sum)
	}
	for i := range p.guide {
		x := float64(i) / float64(len(p.guide))
		p.guide[i], _ = slices.BinarySearchFunc(p.below, x, func(sum, x float64) int {
			if sum <= x {
				return -1
			}
			return 1
		})
	}
	return p
}

func (p *poisson) draw(r *rand.PCG) int {
	x := r.Uint64()
	k := min(p.guide[x>>(64-10)], len(p.below)-1)
	for u := float64(x>>11) / (1 << 53); k < len(p.below)-1 && u >= p.below[k]; k++ {
	}
	return k
}

// pageSim is an SLO with random traffic whose pages are judged every simStep.
type pageSim struct {
	tiers      []Tier
	met        []Met
	firing     []bool
	pages      []int
	quiet      bool // no page has anything to fire for
	now        int
	longest    int            // steps of the longest window
	valid, bad [1 << 10]int32 // counters, as they were at the last steps
	rng        *rand.PCG
}

// reading is what the last steps say.
func (sim *pageSim) reading(window time.Duration) Reading {
	at, from := sim.now%len(sim.valid), (sim.now-int(window/simStep))&(len(sim.valid)-1)
	valid, bad := float64(sim.valid[at]-sim.valid[from]), float64(sim.bad[at]-sim.bad[from])
	if valid == 0 {
		return Reading{}
	}
	return Reading{Ratio: bad / valid, Observed: 1, Events: valid, HasData: true}
}

func newPageSim(t testing.TB, objective string, falsePages float64, seed uint64) *pageSim {
	s := simple(t, "shop/up", objective)
	s.Alerting.FalsePages = falsePages
	all, _ := Tiers(s)
	sim := &pageSim{rng: rand.NewPCG(seed, 1)}
	for _, tier := range all {
		if tier.Page {
			sim.tiers = append(sim.tiers, tier)
			sim.longest = max(sim.longest, int(tier.Long/simStep))
		}
	}
	n := len(sim.tiers)
	sim.met, sim.firing, sim.pages = make([]Met, n), make([]bool, n), make([]int, n)
	return sim
}

// run simulates steady traffic with an error ratio for a number of steps, or until a page fires.
func (sim *pageSim) run(perHour, ratio float64, steps int, untilPage bool) (ran int) {
	perStep := perHour * simStep.Hours()
	goods, bads := newPoisson(perStep*(1-ratio)), newPoisson(perStep*ratio)
	if ratio == 1 {
		goods = newPoisson(1e-300)
	}
	for ran = range steps {
		bad := bads.draw(sim.rng)
		sim.step(goods.draw(sim.rng)+bad, bad)
		if untilPage && slices.Contains(sim.firing, true) {
			break
		}
	}
	return ran
}

func (sim *pageSim) step(valid, bad int) {
	last, size := sim.now%len(sim.valid), len(sim.valid)
	sim.now++
	at := sim.now % size
	sim.valid[at], sim.bad[at] = sim.valid[last]+int32(valid), sim.bad[last]+int32(bad) // which may wrap
	few := sim.bad[at]-sim.bad[(sim.now-sim.longest)&(size-1)] < slo.MinBad
	if few && sim.quiet {
		return
	}
	sim.quiet = true
	now := time.Unix(0, 0).Add(time.Duration(sim.now) * simStep)
	for i := range sim.tiers {
		tier, was := &sim.tiers[i], sim.firing[i]
		sim.firing[i] = tier.Burns(sim.reading, 0, was, now, &sim.met[i])
		sim.quiet = sim.quiet && few && sim.met[i] == (Met{})
		if sim.firing[i] && !was {
			sim.pages[i]++
		}
	}
}

func (sim *pageSim) count() (n int) {
	for _, p := range sim.pages {
		n += p
	}
	return n
}

// docsTable reads the rows of the table in docs/alerts.md that begins with a header.
func docsTable(t *testing.T, header string) [][]string {
	data, err := os.ReadFile("../docs/alerts.md")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(data), "\n| "+header+" |")
	require.True(t, ok, header)
	lines := strings.Split(after, "\n")
	var rows [][]string
	for _, line := range append([]string{"| " + header + " |" + lines[0]}, lines[2:]...) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var row []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows
}

func plainNumber(t *testing.T, s string) float64 {
	x, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(s, ",", ""), "/y"), 64)
	require.NoError(t, err)
	return x
}

// TestFalsePages holds what docs/alerts.md says of false pages against a simulation of its own, and the settings to
// their promise. With -years 1000 -v it prints the numbers of the documentation.
func TestFalsePages(t *testing.T) {
	for _, header := range []string{"requests/h", "`false_pages`"} {
		rows := docsTable(t, header)
		columns := rows[0]
		for _, row := range rows[1:] {
			out := "| " + row[0]
			for i, cell := range row[1:] {
				if cell == "-" {
					out += " | -"
					continue
				}
				objective, perHour, falsePages := strings.TrimSuffix(columns[i+1], " %"), 0.0, slo.DefaultFalsePages
				if header == "requests/h" {
					perHour = plainNumber(t, row[0])
				} else {
					m := regexp.MustCompile(`^([0-9.]+) % at ([0-9,]+)/h$`).FindStringSubmatch(columns[i+1])
					require.NotNil(t, m, columns[i+1])
					objective, perHour, falsePages = m[1], plainNumber(t, m[2]), plainNumber(t, strings.Trim(row[0], "`"))
				}
				sim := newPageSim(t, objective, falsePages, uint64(1000*perHour))
				budget := simple(t, "shop/up", objective).Objective.Budget()
				sim.run(perHour, budget/2, int(*simulatedYears*365)*stepsPerDay, false)
				got, said := float64(sim.count()), plainNumber(t, cell)
				assert.LessOrEqual(t, said, falsePages)
				// Pages come in bursts, so that the spread is wider than that of single events.
				mean := (said + 0.01) * *simulatedYears
				assert.LessOrEqual(t, got, mean+6*math.Sqrt(mean)+2, "%s at %v/h: documented %v a year", objective, perHour, said)
				assert.GreaterOrEqual(t, got, mean-6*math.Sqrt(mean)-2, "%s at %v/h: documented %v a year",
					objective, perHour, said)
				out += fmt.Sprintf(" | %.2f", got / *simulatedYears)
			}
			t.Log(out + " |")
		}
	}
}

// TestDetection holds the table of detection times against random traffic.
func TestDetection(t *testing.T) {
	const runs = 150
	rows := docsTable(t, "detection at")
	for _, row := range rows[1:] {
		out := "| " + row[0]
		for i, ratio := range []float64{1, 0.2} {
			perHour := plainNumber(t, strings.TrimSuffix(row[0], "/h"))
			var minutes []float64
			for run := range runs {
				sim := newPageSim(t, "99.9", slo.DefaultFalsePages, uint64(run))
				sim.run(perHour, 0.0005, stepsPerDay/4, false)
				steps := sim.run(perHour, ratio, stepsPerDay, true)
				minutes = append(minutes, float64(steps+1)*simStep.Minutes())
			}
			slices.Sort(minutes)
			got, said := minutes[runs/2], plainNumber(t, row[i+1])
			assert.InDelta(t, said, got, 0.6+0.25*said, "%v at %v/h", ratio, perHour)
			out += fmt.Sprintf(" | %g", got)
		}
		t.Log(out + " |")
	}
}

// TestFlapping holds the table of pages per incident against random traffic.
func TestFlapping(t *testing.T) {
	const runs = 60
	rows := docsTable(t, "incident")
	for _, row := range rows[1:] {
		m := regexp.MustCompile(`^([0-9,]+)/h, ([0-9]+)%$`).FindStringSubmatch(row[0])
		require.NotNil(t, m, row[0])
		perHour, ratio := plainNumber(t, m[1]), plainNumber(t, m[2])/100
		var pages [2]float64
		for run := range runs {
			sim := newPageSim(t, "99.9", slo.DefaultFalsePages, uint64(run))
			sim.run(perHour, 0.0005, stepsPerDay/4, false)
			clear(sim.pages)
			sim.run(perHour, ratio, stepsPerDay/6, false)
			sim.run(perHour, 0.0005, stepsPerDay/6, false)
			for i := range pages {
				pages[i] += float64(sim.pages[i]) / runs
			}
		}
		t.Logf("| %s | %.2f | %.2f |", row[0], pages[0], pages[1])
		for i, got := range pages {
			assert.LessOrEqual(t, got, 1.5, row[0])
			assert.InDelta(t, plainNumber(t, row[i+1]), got, 0.25, row[0])
		}
	}
}
