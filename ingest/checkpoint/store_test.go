package checkpoint

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// The same log gives the same deduplication table, wherever reading began, whatever times its ids have, and in whatever
// ticks the checkpoint has them. The files have no more than half again as many ids as a full table.
func TestTableDeterminism(t *testing.T) {
	for _, pass := range []int64{20, 1, 400} { // ns between records; a tick has 2
		opt := dedup.Options{Bytes: 200 * 16, MaxAge: 1000}
		live, disk := dedup.New(opt), fsystest.New()
		c := New(Options{FS: disk, DataDir: "/data", Logger: slog.New(slog.DiscardHandler), IDs: opt, Step: func(string) {}})
		require.NoError(t, disk.MkdirAll(c.dir))
		rng := rand.New(rand.NewPCG(1, uint64(pass)))
		add := func(to *dedup.Table, i uint64) {
			to.Begin(1_000_000 + int64(i)*pass)
			for k := range uint64(8) {
				id := i*8 + k
				key := xxh3.Hash128(binary.LittleEndian.AppendUint64(nil, id-id/3%5))
				if id%2 == 0 {
					to.AddAt(key, 1_000_000+int64(i)*pass-int64(key.Lo%1000))
				} else {
					to.Add(key)
				}
			}
			to.Mark()
		}
		same := func(a, b *dedup.Table, i uint64) {
			at := 1_000_000 + int64(i+1)*pass
			require.Equal(t, a.Since(at), b.Since(at))
			sa, sb := a.Stats(at), b.Stats(at)
			require.Equal(t, sa.Count, sb.Count)
			for id := range i*8 + 8 {
				key := xxh3.Hash128(binary.LittleEndian.AppendUint64(nil, id))
				require.Equal(t, a.Has(key), b.Has(key), "id %d at %d", id, i)
			}
		}
		saved, known := uint64(0), 0
		for i := range uint64(400) {
			add(live, i)
			if rng.IntN(7) > 0 {
				continue
			}
			if c.newest != nil {
				other := opt
				other.MaxAge += 1_000_000 * time.Duration(i%2) // larger ticks
				before := &Store{opt: c.opt, dir: c.dir}
				before.opt.IDs = other
				loaded, found, err := before.readTable(c.newest)
				require.NoError(t, err)
				require.Equal(t, &findings{}, found)
				require.Equal(t, known, loaded.Stats(0).Count)
				if other == opt {
					for k := saved + 1; k <= i; k++ {
						add(loaded, k)
					}
					same(live, loaded, i)
				}
			}
			_, err := c.Write(&State{Seq: i}, live.Capture(i, 1_000_000+int64(i)*pass))
			require.NoError(t, err)
			saved, known = i, live.Stats(0).Count
			total := uint64(0)
			for _, f := range c.newest.ids {
				total += f.keys
			}
			require.LessOrEqual(t, total, uint64(opt.Capacity()*3/2+200))
		}
		files, err := disk.List(c.dir)
		require.NoError(t, err)
		require.LessOrEqual(t, len(files), 2+3*fileShare, "files of evicted ids are deleted")
		require.NoError(t, c.Close())
	}
}

// TestTableOfVersion3: ids in generations, without ticks, are known until the table would have forgotten the last of
// theirs, and the next checkpoint writes them in the present form.
func TestTableOfVersion3(t *testing.T) {
	opt := dedup.Options{Bytes: 1000 * 16, MaxAge: 1000}
	disk := fsystest.New()
	c := New(Options{FS: disk, DataDir: "/data", Logger: slog.New(slog.DiscardHandler), IDs: opt, Step: func(string) {}})
	require.NoError(t, disk.MkdirAll(c.dir))
	key := func(i int) xxh3.Uint128 { return xxh3.Hash128([]byte{byte(i), byte(i >> 8)}) }
	b := binary.LittleEndian.AppendUint32([]byte(manifestMagic), manifestBefore)
	u := func(values ...uint64) {
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
	}
	u(7, 40, 5900, 40, 5900, 0, 5, 2) // number, N, its time, M, its time, dead, next generation, generations
	for g, start := range []uint64{5000, 5500} {
		file := appendHead(nil, idsMagic, idsBefore)
		from := len(file)
		file = append(file, 100, 0, 0, 0, 0, 0, 0, 0)
		for i := range 100 {
			file = binary.LittleEndian.AppendUint64(file, key(g*100+i).Hi)
			file = binary.LittleEndian.AppendUint64(file, key(g*100+i).Lo)
		}
		binary.LittleEndian.PutUint32(file[from+4:], crcOf(file[from+8:]))
		number := uint64(3 + g)
		require.NoError(t, fsys.Replace(disk, c.path(idsName(number)), file))
		u(number, start, 100, uint64(len(file)), uint64(crcOf(file)))
	}
	u(0, 0, 0) // packs, parts, epochs
	require.NoError(t, fsys.Replace(disk, c.path(manifestName(7)), binary.LittleEndian.AppendUint32(b, crcOf(b))))
	numbers, err := c.manifests()
	require.NoError(t, err)
	require.Equal(t, []uint64{7}, numbers)
	m, err := c.readManifest(7)
	require.NoError(t, err)

	ids, found, err := c.readTable(m)
	require.NoError(t, err)
	require.Equal(t, &findings{}, found)
	require.EqualValues(t, 5002, ids.Since(5900), "the older one began after the one that was dropped")
	knows := func(from int) {
		t.Helper()
		for i := range 200 {
			require.Equal(t, i >= from, ids.Has(key(i)), i)
		}
	}
	knows(0)
	ids.Begin(6499)
	knows(0)
	ids.Begin(6504)
	knows(100)
	ids.Mark()

	ids.Renew()
	c.newest = m
	_, err = c.Write(&State{Seq: 41}, ids.Capture(41, 6504))
	require.NoError(t, err)
	require.NotEqual(t, m.ids[1].number, c.newest.ids[0].number)
	m, err = c.readManifest(c.newest.number)
	require.NoError(t, err)
	ids, found, err = c.readTable(m)
	require.NoError(t, err)
	require.Equal(t, &findings{}, found)
	knows(100)
	require.NoError(t, c.Close())
}

// TestFloor: the log is kept for the older checkpoint too, from the lower position of each on.
func TestFloor(t *testing.T) {
	a, b := &manifest{seq: 10, idSeq: 12}, &manifest{seq: 9, idSeq: 7}
	require.EqualValues(t, 8, (&Store{newest: a, before: b}).Floor())
	require.EqualValues(t, 8, (&Store{newest: b, before: a}).Floor())
	require.Zero(t, (&Store{newest: a}).Floor())
}

// TestBetterChoice: missing records come before lost parts, and nothing is worse than a worthless
// checkpoint.
func TestBetterChoice(t *testing.T) {
	of := func(missing, lost uint64, worthless bool) *choice {
		return &choice{missing: missing, found: &findings{lost: lost, worthless: worthless}}
	}
	require.True(t, of(1, 5, false).better(of(2, 0, false)))
	require.False(t, of(2, 0, false).better(of(1, 5, false)))
	require.True(t, of(1, 0, false).better(of(1, 5, false)))
	require.False(t, of(1, 5, false).better(of(1, 5, false)))
	require.True(t, of(1, 5, false).better(nil))
	require.False(t, of(0, 0, true).better(nil))
	require.True(t, of(0, 0, false).whole())
	require.False(t, of(0, 1, false).whole())
	require.False(t, of(1, 0, false).whole())
}

// TestReadParts reads parts as another process does: those of the newest checkpoint, of the one before while a part is
// damaged, and of the next one if files are deleted meanwhile.
func TestReadParts(t *testing.T) {
	opt := dedup.Options{Bytes: 1000 * 16, MaxAge: 1000}
	disk, ids := fsystest.New(), dedup.New(opt)
	options := Options{FS: disk, DataDir: "/data", Logger: slog.New(slog.DiscardHandler), IDs: opt, Step: func(string) {}}
	c := New(options)
	read := func() (uint64, []Part, error) {
		return New(Options{FS: disk, DataDir: "/data"}).ReadParts(func(name string) bool { return name != "other" })
	}
	seq, parts, err := read()
	require.NoError(t, err)
	require.Zero(t, seq)
	require.Empty(t, parts, "no folder")
	require.NoError(t, disk.MkdirAll(c.dir))
	write := func(seq uint64, first string) {
		t.Helper()
		_, err := c.Write(&State{Seq: seq, Parts: []Part{{Name: "first", Changed: true, Data: []byte(first)},
			{Name: "second", Changed: seq == 1, Data: []byte("2")}, {Name: "other", Changed: true, Data: []byte("3")}}},
			ids.Capture(seq, int64(seq)))
		require.NoError(t, err)
	}
	write(1, "a")
	write(2, "b")
	seq, parts, err = read()
	require.NoError(t, err)
	require.EqualValues(t, 2, seq)
	require.ElementsMatch(t, []Part{{Name: "first", Data: []byte("b")}, {Name: "second", Data: []byte("2")}}, parts)

	spoil := func(m *manifest) {
		t.Helper()
		for _, p := range m.parts {
			if p.name == "first" {
				file, err := disk.Open(c.path(packName(p.pack)))
				require.NoError(t, err)
				data, err := readAll(file)
				require.NoError(t, err)
				require.NoError(t, file.Close())
				data[p.offset] ^= 1
				require.NoError(t, fsys.Replace(disk, c.path(packName(p.pack)), data))
			}
		}
	}
	spoil(c.newest)
	seq, parts, err = read()
	require.NoError(t, err)
	require.EqualValues(t, 1, seq)
	require.Contains(t, parts, Part{Name: "first", Data: []byte("a")})
	spoil(c.before)
	_, _, err = read()
	require.ErrorContains(t, err, "checkpoint manifest-0000000000000002")
	require.ErrorContains(t, err, "checkpoint manifest-0000000000000001")

	// The engine writes another one while the damaged ones are read.
	reader, written := New(Options{FS: disk, DataDir: "/data"}), false
	seq, parts, err = reader.ReadParts(func(name string) bool {
		if !written {
			written = true
			write(3, "c")
		}
		return name == "first"
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, seq)
	require.Equal(t, []Part{{Name: "first", Data: []byte("c")}}, parts)
	require.NoError(t, c.Close())
}
