package mail

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"time"
)

// TLS says how the connection is encrypted.
type TLS string

// The ways.
const (
	StartTLS    TLS = "starttls" // the server must offer STARTTLS, usually on port 587. The default
	ImplicitTLS TLS = "tls"      // from the first byte, usually on port 465
	NoTLS       TLS = "none"     // not at all, for a server on the same machine
)

// Server is a smarthost.
type Server struct {
	Smarthost string // host:port
	From      string // address of the sender, such as "SLO reports <slo@example.org>"
	Username  string // "": no authentication
	// Password is asked for with each message, so that it can be rotated. Required with a user name.
	Password  func() (string, error)
	TLS       TLS           // default StartTLS
	TLSConfig *tls.Config   // nil: the authorities of the system
	Hello     string        // name of this machine in EHLO. Default: its host name
	Timeout   time.Duration // of all of a message. Default 30s
}

func (s *Server) applyDefaults() {
	s.TLS = cmp.Or(s.TLS, StartTLS)
	s.Timeout = cmp.Or(s.Timeout, 30*time.Second)
}

// CheckSmarthost returns the problem of the address of a mail server.
func CheckSmarthost(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, numeric := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || numeric != nil || n == 0 || strings.ContainsAny(host, " /@") {
		return errors.New("must be a host and a port")
	}
	return nil
}

// CheckAddress returns the problem of the address of a sender or recipient.
func CheckAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

// maxAddress bounds an address with its name. RFC 5321 allows 254 characters for the address alone.
const maxAddress = 500

func parseAddress(address string) (*netmail.Address, error) {
	if len(address) > maxAddress {
		return nil, fmt.Errorf("has %d characters (at most %d)", len(address), maxAddress)
	}
	a, err := netmail.ParseAddress(address)
	if err != nil {
		return nil, errors.New("is not a mail address")
	}
	if strings.ContainsAny(a.Address, "\r\n\x00") {
		return nil, errors.New("is not a mail address")
	}
	return a, nil
}
