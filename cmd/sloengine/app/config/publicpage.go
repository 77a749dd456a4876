package config

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/web/site"
)

// publicConfig is how the public page looks, and whether webhooks subscribe to it.
type publicConfig struct {
	Name      string `yaml:"name"`
	Logo      string `yaml:"logo" is:"file"`
	Color     string `yaml:"color"`      // on a light page
	ColorDark string `yaml:"color_dark"` // on a dark one; "": color

	Subscriptions   bool `yaml:"subscriptions"`
	PrivateWebhooks bool `yaml:"private_webhooks"` // of subscriptions
}

// Bounds of what the public page shows above its content.
const (
	maxPublicName = 80 // characters
	maxLogo       = 256 << 10
)

func (p *publicConfig) check(f *yamldoc.Decoder, externalURL string) {
	long := utf8.RuneCountInString(p.Name) > maxPublicName
	if !f.Broken("public.name") && (long || yamldoc.Printable(p.Name) != p.Name) {
		f.Errorf("public.name", "shorten it", "want at most %d printable characters", maxPublicName)
	}
	if p.Logo != "" && p.Name == "" {
		f.Errorf("public.name", "set it: it is the text of the logo for screen readers", "missing")
	}
	if p.Color == "" && p.ColorDark != "" {
		f.Errorf("public.color", "set it, or remove color_dark", "missing")
	}
	if !f.Broken("public.color") {
		if err := site.CheckColor(p.Color, false); err != nil {
			f.Errorf("public.color", "as in \"#0b5f75\"", "%v", err)
		}
	}
	if !f.Broken("public.color_dark") {
		if err := site.CheckColor(p.dark(), true); err != nil {
			f.Errorf("public.color_dark", "set a lighter one, as in \"#7cc7db\"", "%v", err)
		}
	}
	if p.Subscriptions && externalURL == "" {
		f.Errorf("public.subscriptions", "set it: messages link to incidents", "needs web.external_url")
	}
	if p.PrivateWebhooks && !p.Subscriptions {
		f.Errorf("public.private_webhooks", "set public.subscriptions, or remove it", "without effect")
	}
	if _, err := p.look(); err != nil {
		f.Errorf("public.logo", "", "%v", err)
	}
}

func (p *publicConfig) dark() string {
	if p.ColorDark != "" {
		return p.ColorDark
	}
	return p.Color
}

// look reads the logo.
func (p *publicConfig) look() (l site.Look, err error) {
	l = site.Look{Name: p.Name, Color: p.Color, Dark: p.dark()}
	if p.Logo == "" {
		return l, nil
	}
	if l.Logo, err = fsys.ReadFile(p.Logo, maxLogo); err != nil {
		return l, err
	}
	l.LogoType = http.DetectContentType(l.Logo)
	switch {
	case slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, l.LogoType):
	case bytes.Contains(l.Logo[:min(len(l.Logo), 1024)], []byte("<svg")):
		l.LogoType = "image/svg+xml"
	default:
		return l, fmt.Errorf("%s: want an image in SVG, PNG, JPEG or WebP", p.Logo)
	}
	return l, nil
}

// PublicLook is how the public page looks.
func (c *Config) PublicLook() (site.Look, error) {
	l, err := c.Public.look()
	if err != nil {
		return l, fmt.Errorf("public.logo: %w", err)
	}
	return l, nil
}
