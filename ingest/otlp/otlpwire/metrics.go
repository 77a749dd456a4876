package otlpwire

import (
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Metrics decodes an ExportMetricsServiceRequest, whose items are the points of its metrics. It stops at the first
// error of yield and returns it; errors of its own are of type *Error.
func (d *Decoder) Metrics(body []byte, yield func(*Point) error) error {
	readPoint := each(d, &d.point, d.readPoint, yield)
	return d.request(body, metricNames, func(b []byte, from int) *Error { return d.readMetric(b, from, readPoint) })
}

// MetricsJSON decodes an ExportMetricsServiceRequest in OTLP/JSON, as Metrics does.
func (d *Decoder) MetricsJSON(body []byte, yield func(*Point) error) error {
	b, err := d.fromJSON(body, metricsRequest)
	if err != nil {
		return err
	}
	return d.Metrics(b, yield)
}

// readMetric reads what the points have in common before the points: it may be written behind them, and the data may be
// in several pieces. Data of another kind replaces what is before it.
func (d *Decoder) readMetric(b []byte, from int, readPoint func([]byte, int) *Error) *Error {
	m := &d.metric
	*m = Metric{}
	replaced, metadata := 0, -1 // data before byte replaced do not count
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireBytes:
			m.Name = b[f.from:f.to]
		case 3<<3 | wireBytes:
			m.Unit = b[f.from:f.to]
		case 12<<3 | wireBytes:
			metadata++
			_, f.err = keyValue.check(b[:f.to], f.from, d.limits.MaxDepth)
			f.err = f.err.in("metadata", metadata)
		default:
			if spec := f.data(); spec != nil {
				if kind := MetricKind(spec.number); m.Kind != kind {
					m.Kind, m.Temporality, m.Monotonic, replaced = kind, 0, false, f.from
				}
				f.err = m.readData(b[:f.to], f.from).in(spec.name, -1)
			}
		}
	}
	if f.err != nil {
		return f.err
	}
	m.Name, m.Unit = d.string(m.Name), d.string(m.Unit)
	mark := len(d.text)
	f.next = from
	for f.more(b) {
		spec := f.data()
		if spec == nil {
			continue
		}
		if f.from < replaced {
			_, f.err = spec.of.check(b[:f.to], f.from, d.limits.MaxDepth)
		} else {
			f.err = d.readPoints(b[:f.to], f.from, mark, readPoint)
		}
		f.err = f.err.in(spec.name, -1)
	}
	return f.err
}

// data returns the description of the field of a metric if it is its data.
func (f *fields) data() *fieldSpec {
	if f.tag&7 != wireBytes {
		return nil
	}
	if spec := metricSpec.byNumber(f.tag >> 3); spec != nil && spec.oneof {
		return spec
	}
	return nil
}

// readData reads what surrounds the points of the metric's data.
func (m *Metric) readData(b []byte, from int) *Error {
	f := fields{next: from}
	for f.more(b) {
		switch {
		case f.tag == 2<<3|wireVarint && m.Kind != Gauge && m.Kind != Summary:
			m.Temporality = enum(f.val, len(temporalities))
		case f.tag == 3<<3|wireVarint && m.Kind == Sum:
			m.Monotonic = f.val != 0
		}
	}
	return f.err
}

func (d *Decoder) readPoints(b []byte, from, mark int, readPoint func([]byte, int) *Error) *Error {
	points := -1
	f := fields{next: from}
	for f.more(b) {
		if f.tag == 1<<3|wireBytes {
			points++
			d.text = d.text[:mark]
			f.err = readPoint(b[:f.to], f.from).in(pointsName, points)
		}
	}
	return f.err
}

func (d *Decoder) readPoint(b []byte, from int) *Error {
	p := &d.point
	*p = Point{Origin: d.origin, Metric: d.metric, Attrs: p.Attrs[:0], Buckets: p.Buckets[:0], Bounds: p.Bounds[:0]}
	switch p.Kind {
	case Gauge, Sum:
		return d.readFields(b, from, pointTags{attrs: 7, exemplars: 5, flags: 8}, (*Point).number)
	case Histogram:
		return d.readFields(b, from, pointTags{attrs: 9, exemplars: 8, flags: 10}, (*Point).histogram)
	case ExponentialHistogram:
		return d.readFields(b, from, pointTags{attrs: 1, exemplars: 11, flags: 10}, (*Point).exponential)
	}
	_, err := summaryPoint.check(b, from, d.limits.MaxDepth)
	return err
}

// pointTags are the numbers of fields that differ between kinds of points.
type pointTags struct{ attrs, exemplars, flags uint32 }

// readFields reads a point. own reads the fields that only its kind has.
func (d *Decoder) readFields(b []byte, from int, at pointTags, own func(p *Point, b []byte, f fields) *Error) *Error {
	p := &d.point
	attrs, exemplars := -1, -1
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 2<<3 | wireFixed64:
			p.Start = f.val
		case 3<<3 | wireFixed64:
			p.Time = f.val
		case at.attrs<<3 | wireBytes:
			attrs++
			p.Attrs, f.err = d.addItemAttr(p.Attrs, b[:f.to], f.from)
			f.err = f.err.in("attributes", attrs)
		case at.exemplars<<3 | wireBytes:
			exemplars++
			_, f.err = exemplar.check(b[:f.to], f.from, d.limits.MaxDepth)
			f.err = f.err.in("exemplars", exemplars)
		case at.flags<<3 | wireVarint:
			p.Flags = uint32(f.val)
		default:
			f.err = own(p, b, f)
		}
	}
	return f.err
}

func (p *Point) number(_ []byte, f fields) *Error {
	switch f.tag {
	case 4<<3 | wireFixed64:
		p.Value = Value{Kind: Float, Float: math.Float64frombits(f.val)}
	case 6<<3 | wireFixed64:
		p.Value = Value{Kind: Int, Int: int64(f.val)}
	}
	return nil
}

func (p *Point) histogram(b []byte, f fields) (err *Error) {
	switch f.tag {
	case 4<<3 | wireFixed64:
		p.Count = f.val
	case 5<<3 | wireFixed64:
		p.Total, p.HasSum = math.Float64frombits(f.val), true
	case 6<<3 | wireFixed64:
		p.Buckets = append(p.Buckets, f.val)
	case 6<<3 | wireBytes:
		err = kindFixed64.checkPacked(b[:f.to], f.from).in("bucketCounts", -1)
		for i := f.from; i < f.to && err == nil; i += 8 {
			p.Buckets = append(p.Buckets, binary.LittleEndian.Uint64(b[i:]))
		}
	case 7<<3 | wireFixed64:
		p.Bounds = append(p.Bounds, math.Float64frombits(f.val))
	case 7<<3 | wireBytes:
		err = kindDouble.checkPacked(b[:f.to], f.from).in("explicitBounds", -1)
		for i := f.from; i < f.to && err == nil; i += 8 {
			p.Bounds = append(p.Bounds, math.Float64frombits(binary.LittleEndian.Uint64(b[i:])))
		}
	}
	return err
}

func (p *Point) exponential(b []byte, f fields) (err *Error) {
	switch f.tag {
	case 4<<3 | wireFixed64:
		p.Count = f.val
	case 5<<3 | wireFixed64:
		p.Total, p.HasSum = math.Float64frombits(f.val), true
	case 6<<3 | wireVarint:
		p.Scale = int32(protowire.DecodeZigZag(f.val & math.MaxUint32))
	case 7<<3 | wireFixed64:
		p.Zero = f.val
	case 8<<3 | wireBytes: // in several pieces, these are one
		err = p.buckets(b[:f.to], f.from).in("positive", -1)
	case 9<<3 | wireBytes:
		if _, err = exponentialBuckets.check(b[:f.to], f.from, 0); err == nil {
			p.Negative = p.Negative || anyBucket(b[:f.to], f.from)
		}
		err = err.in("negative", -1)
	}
	return err
}

// buckets reads the positive buckets of an exponential histogram.
func (p *Point) buckets(b []byte, from int) *Error {
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireVarint:
			p.Offset = int32(protowire.DecodeZigZag(f.val & math.MaxUint32))
		case 2<<3 | wireVarint:
			p.Buckets = append(p.Buckets, f.val)
		case 2<<3 | wireBytes:
			f.err = kindUint64.checkPacked(b[:f.to], f.from).in("bucketCounts", -1)
			for i := f.from; i < f.to && f.err == nil; {
				n, next := varint(b[:f.to], i)
				p.Buckets, i = append(p.Buckets, n), next
			}
		}
	}
	return f.err
}

// anyBucket reports whether well-formed buckets hold anything.
func anyBucket(b []byte, from int) bool {
	var p Point
	_ = p.buckets(b, from)
	return slices.ContainsFunc(p.Buckets, func(n uint64) bool { return n > 0 })
}
