package mapping

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMapper(t *testing.T) {
	m, err := NewMapper(&Settings{Service: "shop", Type: ".kind", Attributes: map[string]string{"action": ".p.action"}})
	require.NoError(t, err)
	got, err := m.Append(nil, []byte(`{"kind":"order","p":{"action":"x"},"more":1}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"service":"shop","type":"order","attributes":{"action":"x"}}`, string(got))
	_, err = m.Append(nil, []byte(`[{"kind":"order"}]`))
	require.ErrorContains(t, err, "not a JSON object")
	_, err = m.Append(nil, []byte(`{`))
	require.ErrorContains(t, err, "invalid JSON")
	_, err = NewMapper(&Settings{Service: "shop"})
	require.Error(t, err)
	m, err = NewMapper(nil)
	require.NoError(t, err)
	got, err = m.Append(nil, []byte(`{"service":"shop","type":"order"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"service":"shop","type":"order"}`, string(got))
}
