package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseUnix(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                            0,
		"-1.5":                         -1_500_000_000,
		"1700000000":                   1700000000e9,
		"1700000000.123456789":         1700000000_123456789,
		"1700000000.1234567895":        1700000000_123456790,
		"1.700000000123e9":             1700000000_123000000,
		"17000000001234567890000e-13":  1700000000_123456789,
		"1700000000123":                1700000000_123000000,
		"1700000000123.456789":         1700000000_123456789,
		"99999999999":                  math.MaxInt64, // seconds of the year 5138
		"100000000000":                 100000000e9,   // milliseconds of 1973
		"-100000000000":                -100000000e9,
		"0.0000000000000000000000005":  0,
		"0.00000000050000000000000000": 1,
	} {
		got, ok := parseUnix([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"1e14", "1700000000123456", "1e400", "123456789012345678901234567890"} {
		_, ok := parseUnix([]byte(text))
		require.False(t, ok, text)
	}
}

// FuzzParseDecimal compares with exact rationals.
func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1e-20", "1.5", "9999999999999999999.5", "18446744073709551615", "5e-1",
		"0.49999999999999999999999", "1700000000.1234567895", "12345678901234567890123e-9"} {
		f.Add(s, 9)
	}
	f.Fuzz(func(t *testing.T, text string, scale int) {
		if !json.Valid([]byte(text)) || text != strings.TrimSpace(text) ||
			strings.IndexByte("-0123456789", text[0]) < 0 || len(text) > 100 {
			return
		}
		if _, e, found := strings.Cut(strings.ToLower(text), "e"); found {
			if n, err := strconv.Atoi(e); err != nil || n < -200 || n > 200 {
				return
			}
		}
		if scale < 0 || scale > 9 {
			return
		}
		d := parseDecimal([]byte(text), scale)
		r, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		r.Abs(r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))))
		whole := new(big.Int).Div(r.Num(), r.Denom())
		if !d.ok {
			require.GreaterOrEqual(t, whole.Cmp(new(big.Int).SetUint64(1e19)), 0, text)
			return
		}
		require.Equal(t, whole.String(), new(big.Int).SetUint64(d.whole).String(), text)
		require.Equal(t, r.IsInt(), d.exact, text)
		rest := r.Sub(r, new(big.Rat).SetInt(whole))
		require.Equal(t, rest.Cmp(big.NewRat(1, 2)) >= 0, d.half, text)
	})
}

// rfc3339 is the grammar. Package time takes somewhat more, such as one digit for the hour, a comma for the point and
// offsets of a day and above, and refuses lower-case letters.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzParseTime compares with package time.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		"2026-11-20T09:00:00Z", "2026-11-20T09:00:00.123456789123+03:00", "2024-02-29T23:59:59-23:59", "2023-02-29T00:00:00Z",
		"1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
		"2026-11-20t09:00:00z",
		"2026-11-20T09:00:60Z", "2016-12-31T23:59:60Z", "2016-12-31T15:59:60.25-08:00", "1969-12-31T23:59:60Z",
		"2017-01-01T00:59:60+01:00",
		"2016-12-31T23:59:60+01:00", "2016-12-31T23:59:61Z", "2026-11-20T24:00:00Z", "2026-11-20T9:00:00Z",
		"2026-11-20T09:00:00,5Z", "2026-11-20T09:00:00.Z",
		"2026-11-20T09:00:00+24:00", "2026-11-20T09:00:00+03:60", "2026-11-20T09:00:00+0300", "2026-04-31T00:00:00Z",
		"1677-09-21T00:12:43.145224192Z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want time.Time
		upper := bytes.ToUpper([]byte(text))
		err := want.UnmarshalText(upper)
		if rfc3339.MatchString(text) && text[16:19] == ":60" { // package time knows no leap seconds
			upper[17], upper[18] = '5', '9'
			if err = want.UnmarshalText(upper); err == nil && want.UTC().Format("15:04") != "23:59" {
				err = errors.New("not at the end of a day")
			}
		}
		got, ok := ParseTime([]byte(text))
		require.Equal(t, err == nil && rfc3339.MatchString(text), ok, "%q: %v", text, err)
		if !ok {
			return
		}
		switch {
		case want.After(time.Unix(0, math.MaxInt64).Add(-2 * time.Second)):
			require.Greater(t, got, int64(math.MaxInt64-3e9))
		case want.Before(time.Unix(0, math.MinInt64).Add(2 * time.Second)):
			require.Less(t, got, int64(math.MinInt64+3e9))
		default:
			require.Equal(t, want.UnixNano(), got, text)
		}
	})
}

func TestParseTimeEveryDay(t *testing.T) {
	for d := time.Date(1896, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2104; d = d.AddDate(0, 0, 1) {
		got, ok := ParseTime(d.AppendFormat(nil, time.RFC3339))
		require.True(t, ok)
		require.Equal(t, d.UnixNano(), got)
	}
}
