package series

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/encoding/protowire"
)

// The bounds of a request of remote write, besides the size of its body.
const (
	maxWireSeries  = 100_000
	maxWireSamples = 100_000
	maxSymbols     = 500_000
	maxLabels      = 128
	maxLabelBytes  = 8 << 10 // of a name or a value
)

// WireError means that a request cannot be read.
type WireError struct {
	Offset int // in the unpacked body
	Reason string
}

func (e *WireError) Error() string {
	return fmt.Sprintf("%s, at byte %d of the unpacked body", e.Reason, e.Offset)
}

// wireSeries is a series in a request. It shares memory with the body.
type wireSeries struct {
	labels    []wireLabel
	samples   []point
	natives   []wireValue // where native histograms are
	exemplars int
	bad       string // why it is refused; "": it is not
}

type wireLabel struct{ name, value []byte }

// wire decodes requests of remote write, of both versions. It keeps its memory.
type wire struct {
	one     wireSeries
	native  wireNative
	symbols [][2]uint32 // begin and end in the body
	body    []byte
	v2      bool
	samples int
	hash    xxh3.Hasher
}

// The fields of messages (prometheus.WriteRequest, io.prometheus.write.v2.Request and theirs).
const (
	fieldSeriesV1, fieldSymbols, fieldSeriesV2          = 1, 4, 5
	fieldLabels, fieldSamples                           = 1, 2
	fieldExemplarsV1, fieldHistogramsV1                 = 3, 4
	fieldHistogramsV2, fieldExemplarsV2                 = 3, 4
	fieldLabelName, fieldLabelValue                     = 1, 2
	fieldSampleValue, fieldSampleTime, fieldSampleStart = 1, 2, 3
)

// decode hands out the series of a body.
func (w *wire) decode(body []byte, v2 bool, each func(*wireSeries)) error {
	w.body, w.v2, w.symbols, w.samples = body, v2, w.symbols[:0], 0
	field := protowire.Number(fieldSeriesV1)
	if v2 {
		field = fieldSeriesV2
		if err := w.fields(0, len(body), func(num protowire.Number, v wireValue) error {
			if num != fieldSymbols || v.kind != protowire.BytesType {
				return nil
			}
			if len(w.symbols) >= maxSymbols {
				return w.errorf(v.from, "more than %d symbols", maxSymbols)
			}
			w.symbols = append(w.symbols, [2]uint32{uint32(v.from), uint32(v.to)})
			return nil
		}); err != nil {
			return err
		}
		if len(w.symbols) > 0 && w.symbols[0][0] != w.symbols[0][1] {
			return w.errorf(int(w.symbols[0][0]), "the first symbol is not empty")
		}
	}
	n := 0
	return w.fields(0, len(body), func(num protowire.Number, v wireValue) error {
		if num != field {
			return nil
		}
		if v.kind != protowire.BytesType {
			return w.errorf(v.from, "a series has the wire type %d", v.kind)
		}
		if n++; n > maxWireSeries {
			return w.errorf(v.from, "more than %d series", maxWireSeries)
		}
		if err := w.series(v.from, v.to); err != nil {
			return err
		}
		each(&w.one)
		return nil
	})
}

func (w *wire) errorf(at int, format string, args ...any) error {
	return &WireError{at, fmt.Sprintf(format, args...)}
}

// wireValue is that of a field: a number, or the place of its bytes.
type wireValue struct {
	kind     protowire.Type
	number   uint64
	from, to int
}

// fields hands out the fields of a message.
func (w *wire) fields(from, to int, each func(protowire.Number, wireValue) error) error {
	for from < to {
		num, kind, n := protowire.ConsumeTag(w.body[from:to])
		if n < 0 {
			return w.errorf(from, "broken protobuf: %v", protowire.ParseError(n))
		}
		v := wireValue{kind: kind}
		at := from + n
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(w.body[at:to])
		case protowire.Fixed64Type:
			v.number, n = protowire.ConsumeFixed64(w.body[at:to])
		case protowire.BytesType:
			var b []byte
			if b, n = protowire.ConsumeBytes(w.body[at:to]); n >= 0 {
				v.from, v.to = at+n-len(b), at+n
			}
		default:
			n = protowire.ConsumeFieldValue(num, kind, w.body[at:to])
		}
		if n < 0 {
			return w.errorf(at, "broken protobuf: %v", protowire.ParseError(n))
		}
		if v.to == 0 {
			v.from = at
		}
		if err := each(num, v); err != nil {
			return err
		}
		from = at + n
	}
	return nil
}

func (w *wire) series(from, to int) error {
	one := &w.one
	*one = wireSeries{labels: one.labels[:0], samples: one.samples[:0], natives: one.natives[:0]}
	if err := w.fields(from, to, func(num protowire.Number, v wireValue) error {
		isBytes := v.kind == protowire.BytesType
		switch {
		case num == fieldLabels && !w.v2 && isBytes:
			return w.label(v)
		case num == fieldLabels && w.v2:
			return w.references(v)
		case num == fieldSamples && isBytes:
			if w.samples++; w.samples > maxWireSamples {
				return w.errorf(v.from, "more than %d samples", maxWireSamples)
			}
			return w.sample(v)
		case isBytes && (num == fieldHistogramsV1 && !w.v2 || num == fieldHistogramsV2 && w.v2):
			if w.samples++; w.samples > maxWireSamples {
				return w.errorf(v.from, "more than %d samples", maxWireSamples)
			}
			one.natives = append(one.natives, v)
		case num == fieldExemplarsV1 && !w.v2 || num == fieldExemplarsV2 && w.v2:
			one.exemplars++
		}
		return nil
	}); err != nil {
		return err
	}
	one.check()
	return nil
}

func (w *wire) label(v wireValue) error {
	var l wireLabel
	err := w.fields(v.from, v.to, func(num protowire.Number, v wireValue) error {
		switch {
		case v.kind != protowire.BytesType:
		case num == fieldLabelName:
			l.name = w.body[v.from:v.to]
		case num == fieldLabelValue:
			l.value = w.body[v.from:v.to]
		}
		return nil
	})
	w.one.add(l)
	return err
}

// references adds labels by the numbers of their symbols.
func (w *wire) references(v wireValue) error {
	if v.kind != protowire.BytesType {
		return w.errorf(v.from, "label references are not packed")
	}
	symbol := func(from int) (b []byte, next int, err error) {
		n, size := protowire.ConsumeVarint(w.body[from:v.to])
		switch {
		case size < 0:
			return nil, 0, w.errorf(from, "broken protobuf: %v", protowire.ParseError(size))
		case n >= uint64(len(w.symbols)):
			return nil, 0, w.errorf(from, "symbol %d of %d", n, len(w.symbols))
		}
		return w.body[w.symbols[n][0]:w.symbols[n][1]], from + size, nil
	}
	for at := v.from; at < v.to; {
		var l wireLabel
		var err error
		if l.name, at, err = symbol(at); err != nil {
			return err
		}
		if at >= v.to {
			return w.errorf(at, "a label has no value")
		}
		if l.value, at, err = symbol(at); err != nil {
			return err
		}
		w.one.add(l)
	}
	return nil
}

func (s *wireSeries) add(l wireLabel) {
	if len(s.labels) > maxLabels {
		return // which check says
	}
	s.labels = append(s.labels, l)
	for i := len(s.labels) - 1; i > 0 && string(s.labels[i].name) < string(s.labels[i-1].name); i-- {
		s.labels[i], s.labels[i-1] = s.labels[i-1], s.labels[i]
	}
}

// check finds out why a series cannot be one.
func (s *wireSeries) check() {
	named := false
	for i, l := range s.labels {
		switch {
		case i >= maxLabels:
			s.bad = fmt.Sprintf("more than %d labels", maxLabels)
		case len(l.name) == 0:
			s.bad = "a label without a name"
		case len(l.name) > maxLabelBytes, len(l.value) > maxLabelBytes:
			s.bad = fmt.Sprintf("a label of more than %d bytes", maxLabelBytes)
		case !utf8.Valid(l.name), !utf8.Valid(l.value):
			s.bad = "a label that is not UTF-8"
		case i > 0 && string(l.name) == string(s.labels[i-1].name):
			s.bad = fmt.Sprintf("two labels %.100q", l.name)
		}
		named = named || string(l.name) == nameLabel && len(l.value) > 0
	}
	if !named && s.bad == "" {
		s.bad = "no label " + nameLabel
	}
}

// maxMillis is the last time of a sample, in the year 2255.
const maxMillis = 9e12

func (w *wire) sample(v wireValue) error {
	var p point
	err := w.fields(v.from, v.to, func(num protowire.Number, v wireValue) error {
		switch {
		case num == fieldSampleValue && v.kind == protowire.Fixed64Type:
			p.n = math.Float64frombits(v.number)
		case num == fieldSampleTime && v.kind == protowire.VarintType:
			if p.at = int64(v.number); p.at < 0 || p.at > maxMillis {
				return w.errorf(v.from, "a sample has the time %d", p.at)
			}
		case num == fieldSampleStart && v.kind == protowire.VarintType && w.v2:
			p.began = min(max(int64(v.number), 0), maxMillis)
		}
		return nil
	})
	p.at, p.began = p.at*1e6, p.began*1e6
	w.one.samples = append(w.one.samples, p)
	return err
}

// name is that of the metric.
func (s *wireSeries) name() []byte {
	for i := range s.labels {
		if string(s.labels[i].name) == nameLabel {
			return s.labels[i].value
		}
	}
	return nil
}

// display names the series in a message, which may be as odd as it is.
func (s *wireSeries) display() string { return fmt.Sprintf("%.100q", s.name()) }
