package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestScreenOfATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 97}))
	for _, tt := range []struct {
		noColour, term string
		colour         bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", tt.noColour)
		t.Setenv("TERM", tt.term)
		require.Equal(t, Screen{Width: 97, Colour: tt.colour}, ScreenOf(terminal))
	}
}
