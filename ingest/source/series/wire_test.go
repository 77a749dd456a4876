package series

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"
)

// FuzzWire: a body that the official decoder reads is read alike, and any other is an error with its place. A native
// histogram that is taken is a valid one, which the log keeps.
func FuzzWire(f *testing.F) {
	one := sent{series: `a{b="c",d="e"}`, at: at(1), n: 3, began: at(0)}
	f.Add(bodyV1(f, one, one), false)
	f.Add(bodyV2(f, one, one), true)
	for _, v2 := range []bool{false, true} {
		for _, h := range []*histogram.Histogram{custom(3, 1, 2, 3, 4), collect(f, process())} {
			f.Add(nativeBody(f, v2, tookSeries, at(0), encode(h, at(1), false), encode(h, at(2), true)), v2)
		}
	}
	f.Add([]byte{0x22, 0, 0x2a, 2, 0x0a, 0}, true)
	f.Add([]byte("\x0a\xff"), false)
	f.Fuzz(func(t *testing.T, body []byte, v2 bool) {
		var w wire
		var got []string
		err := w.decode(body, v2, func(one *wireSeries) {
			for _, s := range one.samples {
				got = append(got, fmt.Sprintf("%s %d %v %d", one.name(), s.at/1e6, s.n, s.began/1e6))
			}
			for _, place := range one.natives {
				p, err := w.histogram(place)
				if err != nil {
					continue
				}
				require.NoError(t, p.native.Validate())
				c := put(p.native)
				require.Equal(t, c, put(get(&c)))
				n := (&span{lower: 0, upper: 0.4}).within(p.native)
				require.True(t, n >= 0 && n <= p.n, "%v of %v", n, p.n)
			}
		})
		if err != nil {
			place := &WireError{}
			require.ErrorAs(t, err, &place)
			require.LessOrEqual(t, place.Offset, len(body))
			return
		}
		var want []string
		if v2 {
			var req writev2.Request
			if req.Unmarshal(body) != nil {
				return
			}
			for _, one := range req.Timeseries {
				name := ""
				for i := 0; i+1 < len(one.LabelsRefs) && name == ""; i += 2 {
					if req.Symbols[one.LabelsRefs[i]] == nameLabel {
						name = req.Symbols[one.LabelsRefs[i+1]]
					}
				}
				for _, s := range one.Samples {
					want = append(want, fmt.Sprintf("%s %d %v %d", name, s.Timestamp, s.Value,
						min(max(s.StartTimestamp, 0), maxMillis)))
				}
			}
		} else {
			var req prompb.WriteRequest
			if req.Unmarshal(body) != nil {
				return
			}
			for _, one := range req.Timeseries {
				name := ""
				for _, l := range one.Labels {
					if l.Name == nameLabel && name == "" {
						name = l.Value
					}
				}
				for _, s := range one.Samples {
					want = append(want, fmt.Sprintf("%s %d %v %d", name, s.Timestamp, s.Value, 0))
				}
			}
		}
		require.Equal(t, want, got)
	})
}

func TestBodiesThatCannotBeRead(t *testing.T) {
	d := newDoor(t, nil, errors500)
	for body, want := range map[string]string{
		"\x0a\xff":                 "broken protobuf: unexpected EOF, at byte 1 of the unpacked body",
		"\x0a\x04\x12\x02\x10\xff": "broken protobuf",
		"\x0a\x0d\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": "a sample has the time -1, at byte",
	} {
		_, err := d.Write(t.Context(), []byte(body), false, nil)
		require.ErrorContains(t, err, want)
	}
	_, err := d.Write(t.Context(), []byte("\x22\x00\x2a\x04\x0a\x02\x05\x06"), true, nil)
	require.ErrorContains(t, err, "symbol 5 of 1, at byte 6")
}

// BenchmarkReceive is the door for requests as a Prometheus sends them, of which one series in ten counts.
func BenchmarkReceive(b *testing.B) {
	for _, share := range []int{1, 10} {
		b.Run(fmt.Sprintf("one in %d counts", share), func(b *testing.B) {
			d := newDoor(b, nil, errors500)
			const n = 2000
			list := make([]sent, n)
			for i := range list {
				list[i].series = fmt.Sprintf(`requests_total{job="web",instance="%d",route="/%d",code="200"}`, i/100, i%100)
				if i%share > 0 {
					list[i].series = "other_" + list[i].series
				}
			}
			bodies := make([][]byte, 100)
			for round := range bodies {
				for i := range list {
					list[i].at, list[i].n = at(15*round), float64(round)
				}
				bodies[round] = bodyV1(b, list...)
			}
			b.ReportAllocs()
			b.ResetTimer()
			i := 0
			for ; b.Loop(); i++ {
				if i%len(bodies) == 0 {
					b.StopTimer()
					d = newDoor(b, nil, errors500)
					d.now = at(15 * len(bodies)).Add(time.Minute)
					b.StartTimer()
				}
				if _, err := d.Write(b.Context(), bodies[i%len(bodies)], false, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*i)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
