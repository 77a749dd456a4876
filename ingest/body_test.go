package ingest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func newTestBody(limit int64) *body { return &body{budget: &budget{limit: limit}} }

func TestBodyReadsEverySize(t *testing.T) {
	const limit = 1 << 20
	data := make([]byte, limit+2)
	_, _ = rand.Read(data)
	for _, n := range []int{0, 1, 4095, 4096, 4097, 16384, 16385, 65536, 300_000, limit - 1, limit} {
		for _, expect := range []int64{-1, int64(n), int64(n) / 2, int64(n) + 10} {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"plain":         func(r io.Reader) io.Reader { return r },
				"eof with data": func(r io.Reader) io.Reader { return iotest.DataErrReader(r) },
				"halves":        func(r io.Reader) io.Reader { return iotest.HalfReader(r) },
			} {
				b := newTestBody(8 * limit)
				require.NoError(t, b.readFrom(wrap(bytes.NewReader(data[:n])), limit, expect), "%s %d %d", name, n, expect)
				require.True(t, bytes.Equal(data[:n], b.data), "%s %d %d", name, n, expect)
				require.Positive(t, b.budget.used.Load())
				b.free()
				require.Zero(t, b.budget.used.Load())
			}
		}
	}
	for _, n := range []int{limit + 1, limit + 2} {
		b := newTestBody(8 * limit)
		require.ErrorIs(t, b.readFrom(bytes.NewReader(data[:n]), limit, -1), errBodyTooLarge)
		b.free()
		require.Zero(t, b.budget.used.Load())
	}
}

func TestBodyHoldsWhatWasSentNotWhatWasAnnounced(t *testing.T) {
	b := newTestBody(1 << 30)
	failed := errors.New("gone")
	r := io.MultiReader(strings.NewReader("a few bytes"), iotest.ErrReader(failed))
	require.ErrorIs(t, b.readFrom(r, 16<<20, 16<<20), failed)
	require.LessOrEqual(t, b.budget.used.Load(), int64(eagerBuffer))
	b.free()
}

func TestBudgetRunsOut(t *testing.T) {
	all := &budget{limit: 100}
	require.True(t, all.take(60))
	require.False(t, all.take(41))
	require.True(t, all.take(40), "to the last byte")

	shared := &budget{limit: 100 << 10}
	one, two := body{budget: shared}, body{budget: shared}
	require.NoError(t, one.readFrom(bytes.NewReader(make([]byte, 60<<10)), 1<<20, -1))
	require.ErrorIs(t, two.readFrom(bytes.NewReader(make([]byte, 60<<10)), 1<<20, -1), errNoMemory)
	two.free()
	one.release()
	require.Equal(t, int64(64<<10), shared.used.Load(), "the charge stays until the request ends")
	one.free()
	require.Zero(t, shared.used.Load())
	require.NoError(t, two.readFrom(bytes.NewReader(make([]byte, 60<<10)), 1<<20, -1))
	two.free()
}

func gzipBytes(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstdBytes(t testing.TB, data []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, opts...)
	require.NoError(t, err)
	defer w.Close()
	return w.EncodeAll(data, nil)
}

func TestInflate(t *testing.T) {
	data := bytes.Repeat([]byte("what a lovely day for an event\n"), 3000)
	const limit = 1 << 20
	gz, zs := gzipBytes(t, data), zstdBytes(t, data)
	tests := []struct {
		name string
		enc  encoding
		src  []byte
		want []byte
		err  string
	}{
		{"gzip", gzipped, gz, data, ""},
		{"zstd", zstandard, zs, data, ""},
		{"gzip members", gzipped, append(bytes.Clone(gz), gz...), append(bytes.Clone(data), data...), ""},
		{"zstd frames", zstandard, append(bytes.Clone(zs), zs...), append(bytes.Clone(data), data...), ""},
		{"gzip truncated", gzipped, gz[:len(gz)-9], nil, "gzip: unexpected EOF"},
		{"zstd truncated", zstandard, zs[:len(zs)-5], nil, "zstd: unexpected EOF"},
		{"gzip flipped", gzipped, flip(gz, len(gz)-6), nil, "gzip: "},
		{"not gzip", gzipped, data[:100], nil, "gzip: gzip: invalid header"},
		{"not zstd", zstandard, data[:100], nil, "zstd: "},
		{"empty gzip", gzipped, nil, nil, "gzip: EOF"},
		{"gzip then junk", gzipped, append(bytes.Clone(gz), "junk junk junk"...), nil, "gzip: "},
		{"gzip bomb", gzipped, gzipBytes(t, make([]byte, 64<<20)), nil, "too large"},
		{"zstd bomb", zstandard, zstdBytes(t, make([]byte, 64<<20)), nil, "too large"},
		{"zstd window", zstandard, zstdBytes(t, append(make([]byte, 0, 1), bytes.Repeat(data, 300)...),
			zstd.WithWindowSize(16<<20)), nil, "zstd: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTestBody(16 << 20)
			defer b.free()
			err := inflate(b, tt.src, tt.enc, limit)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.True(t, bytes.Equal(tt.want, b.data))
		})
	}
}

func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0xff
	return data
}

// A bomb must cost no more than the limit allows, however large its content is.
func TestBombsCostBoundedMemory(t *testing.T) {
	const limit = 1 << 20
	for name, c := range map[string]struct {
		enc encoding
		src []byte
	}{
		"gzip": {gzipped, gzipBytes(t, make([]byte, 256<<20))},
		"zstd": {zstandard, zstdBytes(t, make([]byte, 256<<20))},
	} {
		t.Run(name, func(t *testing.T) {
			warm := newTestBody(16 << 20)
			require.ErrorIs(t, inflate(warm, c.src, c.enc, limit), errBodyTooLarge)
			warm.free()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 10 {
				b := newTestBody(16 << 20)
				require.ErrorIs(t, inflate(b, c.src, c.enc, limit), errBodyTooLarge)
				require.LessOrEqual(t, b.budget.used.Load(), int64(limit))
				b.free()
			}
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*(limit+zstdWindow)))
		})
	}
}

func TestParseEncoding(t *testing.T) {
	for header, want := range map[string]encoding{"": identity, "identity": identity, "Identity": identity,
		"gzip": gzipped, "GZIP": gzipped, "x-gzip": gzipped, " zstd ": zstandard, "zstd": zstandard} {
		got, ok := parseEncoding(header)
		require.True(t, ok, header)
		require.Equal(t, want, got, header)
	}
	for _, header := range []string{"br", "deflate", "gzip, gzip", "gzip,zstd", "*"} {
		_, ok := parseEncoding(header)
		require.False(t, ok, header)
	}
}
