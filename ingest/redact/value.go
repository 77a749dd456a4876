package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/netip"
	"unicode/utf8"
)

// work is the memory for one call of Apply.
type work struct {
	out    []byte // the new events
	values [2][]byte
	macs   []hash.Hash // by rule
	sum    [sha256.Size]byte
	counts [4]int // by place in Actions
}

// redact applies rules to a value. changed is false if it stays as it is; remove
// says that the attribute goes. The result is valid until the next call.
func (w *work) redact(rules []*compiled, value []byte) (out []byte, remove, changed bool) {
	free := 0 // of the two buffers, the one that does not hold value
	for _, c := range rules {
		if len(value) == 0 {
			break
		}
		if c.action == Remove && c.pattern == nil {
			w.counts[c.kind]++
			return nil, true, true
		}
		buf := &w.values[free]
		*buf = w.apply((*buf)[:0], c, value)
		if string(*buf) == string(value) {
			continue
		}
		w.counts[c.kind]++
		value, changed = *buf, true
		free ^= 1
		if c.action == Remove && len(value) == 0 {
			return nil, true, true
		}
	}
	return value, false, changed
}

// apply appends a value as redacted by one rule.
func (w *work) apply(dst []byte, c *compiled, value []byte) []byte {
	if c.pattern == nil {
		return cut(w.replace(dst, c, value, nil, nil), len(value))
	}
	if !c.pattern.Match(value) {
		return append(dst, value...)
	}
	from := 0
	for _, m := range c.pattern.FindAllSubmatchIndex(value, -1) {
		dst = append(dst, value[from:m[0]]...)
		dst = w.replace(dst, c, value[m[0]:m[1]], value, m)
		from = m[1]
		if len(dst) > max(MaxValueBytes, len(value)) {
			return cut(dst, len(value))
		}
	}
	return cut(append(dst, value[from:]...), len(value))
}

// cut keeps a value that grew within the limit, and its last character whole.
func cut(value []byte, before int) []byte {
	n := max(MaxValueBytes, before)
	if len(value) <= n {
		return value
	}
	for n > 0 && !utf8.RuneStart(value[n]) {
		n--
	}
	return value[:n]
}

// replace appends the replacement of text. With a pattern, text is the match m in value.
func (w *work) replace(dst []byte, c *compiled, text, value []byte, m []int) []byte {
	switch c.action {
	case Hash:
		mac := w.mac(c)
		mac.Reset()
		mac.Write(text)
		return hex.AppendEncode(dst, mac.Sum(w.sum[:0])[:16])
	case TruncateIP:
		if a, ok := truncated(text); ok {
			return a.AppendTo(dst)
		}
	case Remove:
		return dst
	}
	if c.expand {
		return c.pattern.Expand(dst, c.replace, value, m)
	}
	return append(dst, c.replace...)
}

func (w *work) mac(c *compiled) hash.Hash {
	for len(w.macs) <= c.index {
		w.macs = append(w.macs, nil)
	}
	if w.macs[c.index] == nil {
		w.macs[c.index] = hmac.New(sha256.New, c.key)
	}
	return w.macs[c.index]
}

// truncated reads an address, with or without a port, and keeps its network.
func truncated(text []byte) (netip.Addr, bool) {
	s := string(text)
	a, err := netip.ParseAddr(s)
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		a = withPort.Addr()
	}
	a = a.Unmap().WithZone("")
	bits := 48
	if a.Is4() {
		bits = 24
	}
	network, err := a.Prefix(bits)
	return network.Addr(), err == nil
}
