package slo

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Amount is an exact amount of money, in no currency yet: products and sums of decimals never round. It is rounded
// where it is printed. The zero value is 0.
type Amount struct {
	r *big.Rat // never changed; nil is 0
}

// ErrAmount is returned for what is no positive decimal amount.
var ErrAmount = errors.New("an amount must be a decimal above 0 with at most 12 digits before the point and 6 after it")

// ParseAmount reads an amount such as "12.50".
func ParseAmount(s string) (Amount, error) {
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || len(whole) > 12 || len(frac) > 6 || point && frac == "" || !digits(whole) || !digits(frac) {
		return Amount{}, fmt.Errorf("%q: %w", s, ErrAmount)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || r.Sign() <= 0 {
		return Amount{}, fmt.Errorf("%q: %w", s, ErrAmount)
	}
	return Amount{r}, nil
}

func (a Amount) rat() *big.Rat {
	if a.r == nil {
		return new(big.Rat)
	}
	return a.r
}

// Plus is a + b.
func (a Amount) Plus(b Amount) Amount { return Amount{new(big.Rat).Add(a.rat(), b.rat())} }

// Minus is a - b, which may be negative.
func (a Amount) Minus(b Amount) Amount { return Amount{new(big.Rat).Sub(a.rat(), b.rat())} }

// Times is n times a.
func (a Amount) Times(n uint64) Amount {
	return Amount{new(big.Rat).Mul(a.rat(), new(big.Rat).SetUint64(n))}
}

// Over is the amount for a time if a is that for every per, exact to the nanosecond.
func (a Amount) Over(d, per time.Duration) Amount {
	return Amount{new(big.Rat).Mul(a.rat(), big.NewRat(int64(d), int64(per)))}
}

// Sign is -1, 0 or 1.
func (a Amount) Sign() int { return a.rat().Sign() }

// Quotient is a / b; ok is false if b is 0.
func (a Amount) Quotient(b Amount) (x float64, ok bool) {
	if b.Sign() == 0 {
		return 0, false
	}
	x, _ = new(big.Rat).Quo(a.rat(), b.rat()).Float64()
	return x, true
}

// Float is the nearest float, for metrics.
func (a Amount) Float() float64 {
	x, _ := a.rat().Float64()
	return x
}

// In prints the amount with the decimals of a currency and without its code, such as "1234.50". Half a cent rounds away
// from 0.
func (a Amount) In(currency string) string {
	s := a.rat().FloatString(minorUnits(currency))
	if a.Sign() < 0 && strings.Trim(s, "-0.") == "" {
		return s[1:] // never "-0.00"
	}
	return s
}

// String is the amount with as many decimals as it needs, at most 6.
func (a Amount) String() string {
	s := a.rat().FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalText is the amount as String prints it.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (a *Amount) UnmarshalText(text []byte) error {
	s := string(text)
	whole, frac, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	r, ok := new(big.Rat).SetString(s)
	if !ok || len(whole) > 40 || !digits(whole) || !digits(frac) {
		return fmt.Errorf("%q is no decimal amount", s)
	}
	a.r = r
	return nil
}

// price prints an amount with its currency: with the decimals of the currency, or more where the amount has more.
func (a Amount) price(currency string) string {
	short, exact := a.In(currency), a.String()
	if _, frac, _ := strings.Cut(exact, "."); len(frac) > minorUnits(currency) {
		short = exact
	}
	return short + " " + currency
}

// minorUnits is how many decimals a currency has by ISO 4217. Nearly all have two.
func minorUnits(currency string) int {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	}
	return 2
}

// Money is an amount in a currency. Amounts in different currencies are never added.
type Money struct {
	Amount
	Currency string
}

// String is the amount with its currency, such as "1234.50 EUR".
func (m Money) String() string { return m.In(m.Currency) + " " + m.Currency }

// MarshalText is the amount as a decimal without its currency, so that no reader makes a float of it. Reading it back
// leaves the currency as it is.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.In(m.Currency)), nil }
