package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Progress returns what shows how much of a long task is done, from 0 to 1: a bar on a terminal, which a share of 1
// removes, and elsewhere a line for each tenth.
func Progress(w io.Writer) func(share float64, text string) {
	const width = 30
	file, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	tenth := 0
	return func(share float64, text string) {
		share = min(max(share, 0), 1)
		switch {
		case !terminal && share < 1 && int(share*10) > tenth:
			tenth = int(share * 10)
			fmt.Fprintf(w, "%3.0f%%  %s\n", share*100, text)
		case terminal && share < 1:
			done := int(share * width)
			bar := strings.Repeat("#", done) + strings.Repeat(".", width-done)
			fmt.Fprintf(w, "\r[%s] %3.0f%%  %s\x1b[K", bar, share*100, text)
		case terminal:
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
}
