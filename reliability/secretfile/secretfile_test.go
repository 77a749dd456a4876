package secretfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAChangedFileIsReadAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	write := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	check := func(raw []byte) error {
		if len(raw) < 16 {
			return errors.New("too short")
		}
		return nil
	}
	_, err := Open(name, check)
	require.ErrorIs(t, err, os.ErrNotExist)
	write("short")
	_, err = Open(name, check)
	require.ErrorContains(t, err, name+": too short")

	write(" 0123456789abcdef\n")
	s, err := Open(name, check)
	require.NoError(t, err)
	write("fedcba98765432100")
	require.Equal(t, "0123456789abcdef", string(s.Value(false)))
	s.checked = s.checked.Add(-checkEvery)
	require.Equal(t, "fedcba98765432100", string(s.Value(false)))
	write("")
	require.Equal(t, "fedcba98765432100", string(s.Value(true)), "half a change does not take the key away")
	write("0123456789abcdef")
	require.Equal(t, "0123456789abcdef", string(s.Value(true)))
}
