package spec

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// requireRoundTrip checks that what is written reads as the same spec, and that
// writing that gives the same text.
func requireRoundTrip(t require.TestingT, s *Spec) {
	text := Encode(s)
	again, ps := Load([]File{{Name: "written.yaml", Data: text}})
	require.Empty(t, ps.Errors().String(), "%s", text)
	require.Equal(t, sameEverywhere(s), sameEverywhere(again), "%s", text)
	require.Equal(t, string(text), string(Encode(again)))
}

// sameEverywhere is a spec without what is of the file that it was read from.
func sameEverywhere(s *Spec) *Spec {
	out := *s
	out.Warnings, out.Sources = nil, nil
	for _, src := range s.Sources {
		src.Position = Position{}
		out.Sources = append(out.Sources, src)
	}
	sortSources(out.Sources)
	out.SLOs = nil
	for _, o := range s.SLOs {
		c := *o
		c.Labels = nonNil(c.Labels)
		c.Corrections = nil
		for _, x := range o.Corrections {
			x.Between = nil
			zone := x.Start.Location().String()
			if zone == "Local" {
				zone = ""
			}
			x.Reason += "|" + x.Start.UTC().Format(time.RFC3339Nano) + zone
			x.Start = time.Time{}
			c.Corrections = append(c.Corrections, x)
		}
		sortCorrections(c.Corrections)
		if c.Window.Location != nil {
			c.Description += "|" + c.Window.Location.String()
			c.Window.Location = nil
		}
		out.SLOs = append(out.SLOs, &c)
	}
	out.Agreements = nil
	for _, a := range s.Agreements {
		c := *a
		if c.Window.Location != nil {
			c.Description += "|" + c.Window.Location.String()
			c.Window.Location = nil
		}
		out.Agreements = append(out.Agreements, &c)
	}
	return &out
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func TestShareText(t *testing.T) {
	for _, share := range []float64{0.02, 0.05, 0.1, 1, 0.125, 2.0 / 720, 1.0 / 3, 0.999, 1e-9, 9.5, 14.4 / 720, 0.005} {
		v := scalar(shareText(share))
		got, ok := readShare(v)
		require.True(t, ok, "%s", shareText(share))
		require.Equal(t, share, got)
	}
	require.Equal(t, "2", shareText(0.02))
	require.Equal(t, "0.125", shareText(0.00125))
	require.Equal(t, "100", shareText(1))
}

func TestEncode(t *testing.T) {
	require.Empty(t, Encode(&Spec{}))
	require.Equal(t, slo.ID("shop/checkout"), loadClean(t, specs+"minimal.yaml").SLOs[0].ID)
}

func sortSources(all []Source) {
	slices.SortFunc(all, func(a, b Source) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Name, b.Name))
	})
}

func sortCorrections(all []slo.Correction) {
	slices.SortFunc(all, func(a, b slo.Correction) int { return cmp.Compare(a.Name, b.Name) })
}
