package send

import (
	"strings"
	"time"
	"unicode/utf8"
)

// localTimeBytes is the length of 02/Jan/2006:15:04:05 -0700.
const localTimeBytes = 26

// parseLocalTime reads a time as access logs write it, which end must follow; 0
// stands for the end of b.
func parseLocalTime(b []byte, end byte) (when time.Time, ok bool) {
	if len(b) < localTimeBytes || end != 0 && (len(b) == localTimeBytes || b[localTimeBytes] != end) ||
		end == 0 && len(b) != localTimeBytes {
		return when, false
	}
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return when, false
	}
	day, ok1 := number(b[0:2])
	month := monthOf(b[3:6])
	year, ok2 := number(b[7:11])
	hour, ok3 := number(b[12:14])
	minute, ok4 := number(b[15:17])
	second, ok5 := number(b[18:20])
	zoneHours, ok6 := number(b[22:24])
	zoneMinutes, ok7 := number(b[24:26])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month == 0 || day < 1 ||
		hour > 23 || minute > 59 || second > 60 || zoneHours > 23 || zoneMinutes > 59 || year < 1678 || year > 2261 {
		return when, false
	}
	zone := zoneHours*3600 + zoneMinutes*60
	switch b[21] {
	case '+':
		zone = -zone
	case '-':
	default:
		return when, false
	}
	leap := second == 60 // counts as the second before it, as in events
	when = time.Date(year, month, day, hour, minute, min(second, 59), 0, time.UTC)
	if when.Day() != day { // time.Date made March out of 30 February
		return when, false
	}
	when = when.Add(time.Duration(zone) * time.Second)
	return when, !leap || (when.Unix()+1)%86400 == 0
}

func number(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func monthOf(b []byte) time.Month {
	for m := time.January; m <= time.December; m++ {
		if string(b) == m.String()[:3] {
			return m
		}
	}
	return 0
}

// clean makes an attribute value of a logged text: escapes are resolved, invalid UTF-8 is replaced,
// and it is cut to limit bytes.
func (p *Parser) clean(text []byte, limit int) string {
	b := p.scratch[:0]
	for i := 0; i < len(text) && len(b) < limit+utf8.UTFMax; i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			b = append(b, c)
			continue
		}
		i++
		switch text[i] {
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case '"', '\\':
			c = text[i]
		case 'x':
			if i+2 < len(text) {
				high, ok1 := hexDigit(text[i+1])
				low, ok2 := hexDigit(text[i+2])
				if ok1 && ok2 {
					c = high<<4 | low
					i += 2
					break
				}
			}
			i-- // no escape after all
		default:
			i--
		}
		b = append(b, c)
	}
	p.scratch = b
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
