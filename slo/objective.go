package slo

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Objective is a target in (0,1), kept as the decimal that the user wrote so
// that 100 - 99.9 is 0.1 and never 0.09999999999999432.
type Objective struct {
	percent string  // as written, normalised: no trailing zeros, no sign
	ratio   float64 // nearest float to percent/100
	budget  float64 // nearest float to 1 - percent/100
}

// ErrObjective is returned for a percentage outside (0,100) or not a decimal.
var ErrObjective = errors.New("objective must be a decimal between 0 and 100 percent, both excluded")

// ParsePercent reads a percentage such as "99.9". At most 12 digits may follow
// the point. 0 and 100 are refused: neither leaves a budget to reason about.
func ParsePercent(s string) (Objective, error) {
	whole, frac, _ := strings.Cut(s, ".")
	if len(whole) == 0 || len(whole) > 3 || len(frac) > 12 || !digits(whole) || !digits(frac) ||
		strings.HasSuffix(s, ".") {
		return Objective{}, fmt.Errorf("%q: %w", s, ErrObjective)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return Objective{}, fmt.Errorf("%q: %w", s, ErrObjective)
	}
	hundred := big.NewRat(100, 1)
	if r.Sign() <= 0 || r.Cmp(hundred) >= 0 {
		return Objective{}, fmt.Errorf("%q: %w", s, ErrObjective)
	}
	ratio := new(big.Rat).Quo(r, hundred)
	budget := new(big.Rat).Sub(big.NewRat(1, 1), ratio)
	o := Objective{percent: normal(whole, frac)}
	o.ratio, _ = ratio.Float64()
	o.budget, _ = budget.Float64()
	return o, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func normal(whole, frac string) string {
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	frac = strings.TrimRight(frac, "0")
	if frac == "" {
		return whole
	}
	return whole + "." + frac
}

// IsZero reports whether the objective was never set.
func (o Objective) IsZero() bool { return o.percent == "" }

// Ratio is the target in (0,1), such as 0.999.
func (o Objective) Ratio() float64 { return o.ratio }

// Budget is the error budget 1 - target in (0,1), such as 0.001, exact to the
// nearest float of the decimal.
func (o Objective) Budget() float64 { return o.budget }

// Percent is the target as written, such as "99.9".
func (o Objective) Percent() string { return o.percent }

// String is the target with its unit, such as "99.9%".
func (o Objective) String() string { return o.percent + "%" }

// FormatRatio prints a float as rules and pages should show it: 12 significant
// digits, so that no rounding noise of the 16th reaches a user.
func FormatRatio(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }
