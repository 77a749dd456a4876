package remotewrite

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// kind is the type of a series, as io.prometheus.write.v2.Metadata numbers it.
type kind uint64

const (
	kindUnknown   kind = 0
	kindCounter   kind = 1
	kindGauge     kind = 2
	kindHistogram kind = 3
	kindSummary   kind = 5
)

// pair is a label.
type pair struct{ name, value string }

// Field numbers of io.prometheus.write.v2.Request and its parts, and of prometheus.WriteRequest. Samples are the same
// in both.
const (
	v2Symbols, v2Series                = 4, 5
	v2LabelRefs, v2Samples, v2Metadata = 1, 2, 5
	v2MetadataType, v2MetadataHelp     = 1, 3
	sampleValue, sampleTime            = 1, 2
	v1Series                           = 1
	v1Labels, v1Samples                = 1, 2
	v1LabelName, v1LabelValue          = 1, 2
	maxChunkSamples                    = 2000    // of a request, as Prometheus sends them
	maxChunkBytes                      = 1 << 20 // of a request before compression
	requiredV2                         = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	requiredV1                         = "application/x-protobuf"
)

// request builds one request of version 2.
type request struct {
	refs    map[string]uint32
	symbols []byte
	series  []byte
	samples int

	one, inner []byte // reused for each series
}

func newRequest() *request {
	r := &request{refs: map[string]uint32{}}
	r.ref("") // the first symbol of every request
	return r
}

func (r *request) ref(s string) uint64 {
	n, ok := r.refs[s]
	if !ok {
		n = uint32(len(r.refs))
		r.refs[s] = n
		r.symbols = protowire.AppendTag(r.symbols, v2Symbols, protowire.BytesType)
		r.symbols = protowire.AppendString(r.symbols, s)
	}
	return uint64(n)
}

func (r *request) full() bool {
	return r.samples >= maxChunkSamples || len(r.symbols)+len(r.series) >= maxChunkBytes
}

// add adds a sample of a series whose labels are sorted.
func (r *request) add(labels []pair, value float64, ms int64, k kind, help string) {
	r.samples++
	r.inner = r.inner[:0]
	for _, l := range labels {
		r.inner = protowire.AppendVarint(protowire.AppendVarint(r.inner, r.ref(l.name)), r.ref(l.value))
	}
	r.one = message(r.one[:0], v2LabelRefs, r.inner)
	r.one = appendSample(r.one, v2Samples, value, ms)
	r.inner = r.inner[:0]
	if k != kindUnknown {
		r.inner = protowire.AppendVarint(protowire.AppendTag(r.inner, v2MetadataType, protowire.VarintType), uint64(k))
	}
	if help != "" {
		r.inner = protowire.AppendVarint(protowire.AppendTag(r.inner, v2MetadataHelp, protowire.VarintType), r.ref(help))
	}
	if len(r.inner) > 0 {
		r.one = message(r.one, v2Metadata, r.inner)
	}
	r.series = message(r.series, v2Series, r.one)
}

func (r *request) bytes() []byte { return slices.Concat(r.symbols, r.series) }

func message(b []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
}

func appendSample(b []byte, field protowire.Number, value float64, ms int64) []byte {
	var s []byte
	s = protowire.AppendFixed64(protowire.AppendTag(s, sampleValue, protowire.Fixed64Type), math.Float64bits(value))
	s = protowire.AppendVarint(protowire.AppendTag(s, sampleTime, protowire.VarintType), uint64(ms))
	return message(b, field, s)
}

var errForm = errors.New("not a request of this package")

// fields calls each for every field of a message: with its bytes, or with its number.
func fields(b []byte, each func(field protowire.Number, content []byte, number uint64) error) error {
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errForm
		}
		b = b[n:]
		var content []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		default:
			return errForm
		}
		if n < 0 {
			return errForm
		}
		b = b[n:]
		if err := each(field, content, number); err != nil {
			return err
		}
	}
	return nil
}

// read calls each for every series of a request of version 2 that this package has made. The labels are valid until it
// returns.
func read(b []byte, each func(labels []pair, value float64, ms int64)) error {
	var symbols []string
	var labels []pair
	return fields(b, func(field protowire.Number, content []byte, _ uint64) error {
		if field == v2Symbols {
			symbols = append(symbols, string(content))
			return nil
		}
		var value float64
		var ms int64
		labels = labels[:0]
		err := fields(content, func(field protowire.Number, content []byte, _ uint64) error {
			switch field {
			case v2LabelRefs:
				for len(content) > 0 {
					name, n := protowire.ConsumeVarint(content)
					if n < 0 {
						return errForm
					}
					of, m := protowire.ConsumeVarint(content[n:])
					if m < 0 || max(name, of) >= uint64(len(symbols)) {
						return errForm
					}
					labels, content = append(labels, pair{symbols[name], symbols[of]}), content[n+m:]
				}
			case v2Samples:
				return fields(content, func(field protowire.Number, _ []byte, number uint64) error {
					switch field {
					case sampleValue:
						value = math.Float64frombits(number)
					case sampleTime:
						ms = int64(number)
					}
					return nil
				})
			}
			return nil
		})
		if err == nil {
			each(labels, value, ms)
		}
		return err
	})
}

// versionOne is the same request in version 1, without types and help.
func versionOne(b []byte) (out []byte, err error) {
	var one, inner []byte
	err = read(b, func(labels []pair, value float64, ms int64) {
		one = one[:0]
		for _, l := range labels {
			inner = protowire.AppendString(protowire.AppendTag(inner[:0], v1LabelName, protowire.BytesType), l.name)
			inner = protowire.AppendString(protowire.AppendTag(inner, v1LabelValue, protowire.BytesType), l.value)
			one = message(one, v1Labels, inner)
		}
		out = message(out, v1Series, appendSample(one, v1Samples, value, ms))
	})
	if err != nil {
		return nil, fmt.Errorf("translate to version 1: %w", err)
	}
	return out, nil
}
