package httpsink

import "fmt"

func checkKey(raw []byte) error {
	if len(raw) < minSecret {
		return fmt.Errorf("key of %d bytes is too short (at least %d)", len(raw), minSecret)
	}
	return nil
}
