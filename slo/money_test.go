package slo_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

func amount(t testing.TB, s string) slo.Amount {
	t.Helper()
	a, err := slo.ParseAmount(s)
	require.NoError(t, err)
	return a
}

func TestParseAmount(t *testing.T) {
	for in, want := range map[string][2]string{ // exact, and in euros
		"12.50": {"12.5", "12.50"}, "0.1": {"0.1", "0.10"}, "0.000001": {"0.000001", "0.00"}, "7": {"7", "7.00"},
		"999999999999.999999": {"999999999999.999999", "1000000000000.00"}, "0.005": {"0.005", "0.01"},
		"0012": {"12", "12.00"},
	} {
		a := amount(t, in)
		require.Equal(t, want, [2]string{a.String(), a.In("EUR")}, in)
	}
	for _, s := range []string{"", "0", "0.00", "-1", "+1", "1.", ".5", "1,5", "1e3", "0x1", "1/3", "NaN", "1.0000001",
		"1000000000000", " 1", "1 EUR", "1_0"} {
		_, err := slo.ParseAmount(s)
		require.ErrorIs(t, err, slo.ErrAmount, s)
	}
}

// Ten dimes are a euro, which no float says of 0.1.
func TestAmountsAreExact(t *testing.T) {
	var sum slo.Amount
	for range 10 {
		sum = sum.Plus(amount(t, "0.1"))
	}
	require.Equal(t, 0, sum.Minus(amount(t, "1")).Sign())
	require.Equal(t, "1.00", amount(t, "0.1").Times(10).In("EUR"))
	require.Equal(t, "230584300921369395.00", amount(t, "0.1").Times(2305843009213693950).In("EUR"))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		cents := rapid.Int64Range(1, 1e9).Draw(t, "cents")
		a, err := slo.ParseAmount(big.NewRat(cents, 100).FloatString(2))
		require.NoError(t, err)
		want := new(big.Int).Mul(new(big.Int).SetUint64(n), big.NewInt(cents))
		require.Equal(t, new(big.Rat).SetFrac(want, big.NewInt(100)).FloatString(2), a.Times(n).In("EUR"))
	})
}

func TestMoneyIsPrintedByItsCurrency(t *testing.T) {
	for _, c := range []struct{ amount, currency, want string }{
		{"1234.5", "EUR", "1234.50 EUR"}, {"1234.5", "JPY", "1235 JPY"}, {"1234.5", "KWD", "1234.500 KWD"},
		{"0.004", "EUR", "0.00 EUR"},
	} {
		m := slo.Money{Amount: amount(t, c.amount), Currency: c.currency}
		require.Equal(t, c.want, m.String())
		negative := slo.Money{Amount: slo.Amount{}.Minus(m.Amount), Currency: c.currency}.String()
		if c.amount == "0.004" {
			require.Equal(t, c.want, negative, "never -0.00")
		} else {
			require.Equal(t, "-"+c.want, negative)
		}
	}
	text, err := slo.Money{Amount: amount(t, "12.5"), Currency: "EUR"}.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "12.50", string(text))
}

func TestAmountAsText(t *testing.T) {
	for _, s := range []string{"0", "-3.5", "12.5", "0.000001", "230584300921369395"} {
		var a slo.Amount
		require.NoError(t, a.UnmarshalText([]byte(s)))
		text, err := a.MarshalText()
		require.NoError(t, err)
		require.Equal(t, s, string(text))
	}
	for _, s := range []string{"", "-", "1e9", "1/3", "x", "1.5 EUR", "0x10"} {
		require.Error(t, new(slo.Amount).UnmarshalText([]byte(s)), s)
	}
}

func TestPaymentOverTime(t *testing.T) {
	p := slo.Payment{Amount: amount(t, "100"), Per: 30 * 24 * time.Hour}
	require.Equal(t, "33.33", p.Over(10*24*time.Hour).In("EUR"))
	require.Equal(t, "100.00", p.Over(10*24*time.Hour).Plus(p.Over(20*24*time.Hour)).In("EUR"), "thirds are exact")
	require.Equal(t, 0, slo.Payment{}.Over(time.Hour).Sign())
	require.Equal(t, "100.00 EUR per 30d", p.Text("EUR"))
}
