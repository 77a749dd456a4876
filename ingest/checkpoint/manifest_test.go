package checkpoint

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/reliability/fsys"
)

func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		m := &manifest{
			number: u("number"), seq: u("seq"), at: int64(u("at")), idSeq: u("idSeq"), idAt: int64(u("idAt")),
			dead: u("total"), shift: rapid.Uint8Min(1).Draw(t, "shift"), floor: int64(u("floor")),
			ids: []savedIDs{}, packs: []savedPack{}, parts: []savedPart{},
			epochs: rapid.MapOfN(rapid.String(), rapid.Uint64(), 0, 3).Draw(t, "epochs"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			m.ids = append(m.ids, savedIDs{u("ids"), int64(u("start")), int64(u("last")), u("keys"), int64(u("length")),
				uint32(u("crc"))})
			m.packs = append(m.packs, savedPack{u("pack"), int64(u("size"))})
			m.parts = append(m.parts, savedPart{rapid.String().Draw(t, "name"), u("pack"), int64(u("offset")),
				int64(u("length")), uint32(u("crc"))})
		}
		b := m.encode()
		got, err := decodeManifest(b)
		require.NoError(t, err)
		require.Equal(t, m, got)
		flip := rapid.IntRange(0, len(b)-1).Draw(t, "flip")
		b[flip] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, err = decodeManifest(b)
		require.Error(t, err)
		_, err = decodeManifest(b[:flip])
		require.Error(t, err)
	})
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add((&manifest{shift: 1, parts: []savedPart{{name: "a"}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeManifest(b); err == nil {
			m.shift = max(m.shift, 1) // it has none in version 3
			_, err := decodeManifest(m.encode())
			require.NoError(t, err)
		}
	})
}

// TestOtherManifestVersions: one of another version is refused, and not taken for damage.
func TestOtherManifestVersions(t *testing.T) {
	for _, version := range []uint32{manifestBefore - 1, manifestVersion + 1} {
		b := (&manifest{number: 3, seq: 4, shift: 1, parts: []savedPart{{name: "a"}}}).encode()
		b = b[:len(b)-4]
		binary.LittleEndian.PutUint32(b[len(manifestMagic):], version)
		_, err := decodeManifest(binary.LittleEndian.AppendUint32(b, crcOf(b)))
		require.ErrorIs(t, err, fsys.ErrNewer)
	}
}
