package slo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func TestCauseLinks(t *testing.T) {
	mdm := slo.Cause{Group: map[string]string{"integration": "mdm"},
		Affects: map[string][]string{"product": {"MED", "TRVL"}}}
	shared := slo.Cause{}
	all := slo.Cause{Group: map[string]string{"integration": "mdm"}, Affects: map[string][]string{"product": nil}}
	for _, c := range []struct {
		name      string
		of        *slo.Cause
		by        []string
		at        slo.Group
		suffering []string
		in        slo.Group
		want      bool
	}{
		{"the declared groups", &mdm, []string{"integration"}, slo.Group{"mdm"}, []string{"product"}, slo.Group{"MED"}, true},
		{"another product", &mdm, []string{"integration"}, slo.Group{"mdm"}, []string{"product"}, slo.Group{"SOM"}, false},
		{"another call", &mdm, []string{"integration"}, slo.Group{"sign"}, []string{"product"}, slo.Group{"MED"}, false},
		{"no group where one is asked for", &mdm, []string{"integration"}, nil, []string{"product"}, slo.Group{"MED"}, false},
		{"every product", &all, []string{"integration"}, slo.Group{"mdm"}, []string{"product"}, slo.Group{"SOM"}, true},
		{"equal shared values", &shared, []string{"region"}, slo.Group{"eu"}, []string{"region"}, slo.Group{"eu"}, true},
		{"other shared values", &shared, []string{"region"}, slo.Group{"eu"}, []string{"region"}, slo.Group{"us"}, false},
		{"nothing is shared", &shared, nil, nil, []string{"product"}, slo.Group{"MED"}, true},
	} {
		require.Equal(t, c.want, c.of.Links(c.by, c.at, c.suffering, c.in), c.name)
	}
}
