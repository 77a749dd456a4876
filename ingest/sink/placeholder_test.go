package sink

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/dispatch"
)

func TestPlaceholders(t *testing.T) {
	it := &dispatch.Item{ID: "1", Service: "shop", Type: "order"}
	for text, want := range map[string][2]string{
		"":                          {"", ""},
		"events":                    {"events", ""},
		"{service}/{id}":            {"shop/1", ""},
		"a.{service}.{type}.b":      {"a.shop.order.b", ""},
		"{severity}{id}{severity}.": {"1.", "severity"},
	} {
		p, err := parsePlaceholders(text)
		require.NoError(t, err)
		got, missing := p.of(it)
		require.Equal(t, want, [2]string{got, missing}, text)
	}
	for _, text := range []string{"{", "}", "{}", "{time}", "{id", "a}b", "{{id}}"} {
		_, err := parsePlaceholders(text)
		require.Error(t, err, text)
	}
}
