package collector

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/sla"
)

// exposition writes a report in one of the two text formats, Prometheus 0.0.4 or OpenMetrics. A scrape of 10,000 groups
// is 130,000 series, which cost several times as much as values of client_golang.
type exposition struct {
	w     io.Writer
	om    bool // OpenMetrics
	buf   []byte
	arena []byte // where labels are written
	err   error
	begun bool // the head of the current family is written
	f     *metric.Family
}

const (
	flushAt    = 64 << 10
	arenaBytes = 64 << 10
	labelBytes = 512 // room that labels find in the arena; longer ones take memory of their own
)

// writeReport writes every series of a report to w.
// Exemplars are for OpenMetrics only.
func writeReport(w io.Writer, rep *sla.Report, openMetrics bool, ex *exemplars) error {
	x := &exposition{w: w, om: openMetrics, buf: make([]byte, 0, flushAt+4096)}
	walk(rep, ex, x)
	x.flush()
	return x.err
}

func (x *exposition) family(f *metric.Family) { x.f, x.begun = f, false }

// head announces the family before its first sample.
func (x *exposition) head() {
	if x.begun {
		return
	}
	x.begun = true
	name := x.f.Name
	if x.om && x.f.Type == metric.Counter {
		name = strings.TrimSuffix(name, "_total")
	}
	x.buf = append(append(append(append(x.buf, "# HELP "...), name...), ' '), x.f.Help...)
	x.buf = append(append(append(append(append(x.buf, "\n# TYPE "...), name...), ' '), x.f.Type...), '\n')
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labels writes name="value" pairs without braces.
func (x *exposition) labels(names []string, values ...string) []byte {
	if cap(x.arena)-len(x.arena) < labelBytes {
		x.arena = make([]byte, 0, arenaBytes)
	}
	b := x.arena
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, name...), `="`...)
		if i < len(values) {
			v := labelValue(values[i])
			if strings.ContainsAny(v, "\\\n\"") {
				v = labelEscapes.Replace(v)
			}
			b = append(b, v...)
		}
		b = append(b, '"')
	}
	from := len(x.arena)
	x.arena = b
	return b[from:len(b):len(b)]
}

func (x *exposition) sample(labels, more []byte, v float64, e *exemplar) {
	x.end(x.number(x.begin("", labels, more), v), e)
	x.flushFull()
}

// end ends a line, with its exemplar if it has one.
func (x *exposition) end(b []byte, e *exemplar) {
	if e != nil && x.om {
		b = append(append(append(b, " # {"+labelTraceID+`="`...), e.id...), `"} `...)
		b = append(x.number(b, e.value), ' ')
		b = strconv.AppendFloat(b, float64(e.at.UnixMilli())/1000, 'f', 3, 64)
	}
	x.buf = append(b, '\n')
}

// begin writes a line up to its value.
func (x *exposition) begin(suffix string, labels, more []byte) []byte {
	x.head()
	b := append(append(append(append(x.buf, x.f.Name...), suffix...), '{'), labels...)
	if len(more) > 0 {
		b = append(append(b, ','), more...)
	}
	return append(b, "} "...)
}

func (x *exposition) histogram(labels []byte, buckets []bucket, sum float64) {
	line := func(suffix string, more []byte, n uint64, e *exemplar) { // counts are whole numbers in both formats
		x.end(strconv.AppendUint(x.begin(suffix, labels, more), n, 10), e)
	}
	for _, b := range buckets {
		le := []byte(`le="+Inf"`)
		if !math.IsInf(b.le, 1) {
			le = append(x.number(le[:len(`le="`)], b.le), '"')
		}
		line("_bucket", le, b.count, b.exemplar)
	}
	x.end(x.number(x.begin("_sum", labels, nil), sum), nil)
	line("_count", nil, buckets[len(buckets)-1].count, nil)
	x.flushFull()
}

func (x *exposition) number(b []byte, v float64) []byte {
	from := len(b)
	if v == float64(int64(v)) && v > -1e15 && v < 1e15 {
		b = strconv.AppendInt(b, int64(v), 10)
	} else {
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	if x.om && !slices.ContainsFunc(b[from:], func(c byte) bool { return c == '.' || c == 'e' }) {
		b = append(b, ".0"...) // OpenMetrics wants floats to look like floats
	}
	return b
}

func (x *exposition) flushFull() {
	if len(x.buf) >= flushAt {
		x.flush()
	}
}

func (x *exposition) flush() {
	if x.err == nil {
		_, x.err = x.w.Write(x.buf)
	}
	x.buf = x.buf[:0]
}
