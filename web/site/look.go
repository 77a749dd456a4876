package site

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Look is how the public page looks. The zero Look has no name, no logo and the colours of the other pages.
type Look struct {
	Name        string
	Logo        []byte // an image, shown beside the name
	LogoType    string // its media type
	Color, Dark string // #rrggbb of links and of the line above the page, on a light and on a dark page
}

// Backgrounds of links: the darkest of the light ones and the lightest of the dark ones.
const (
	lightGround = "f6f7f7"
	darkGround  = "171e20"
)

// leastContrast is what WCAG 2.2 asks of text at level AA.
const leastContrast = 4.5

var hexColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// CheckColor reports why links cannot have a colour, which is "" or #rrggbb, on a light or a dark page.
func CheckColor(color string, dark bool) error {
	if color == "" {
		return nil
	}
	if !hexColor.MatchString(color) {
		return errors.New("want # and six hexadecimal digits")
	}
	page, ground := "light", lightGround
	if dark {
		page, ground = "dark", darkGround
	}
	a, b := luminance(color[1:]), luminance(ground)
	if c := (max(a, b) + 0.05) / (min(a, b) + 0.05); c < leastContrast {
		return fmt.Errorf("has a contrast of %.1f on a %s page, and text needs %.1f", math.Floor(c*10)/10, page,
			leastContrast)
	}
	return nil
}

// luminance is the relative luminance of the colour rrggbb, from WCAG 2.2.
func luminance(hex string) float64 {
	v, _ := strconv.ParseUint(hex, 16, 32) // callers check it
	channel := func(shift uint) float64 {
		c := float64(v>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}
