package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Client makes the requests of Post.
func Client() *http.Client { return &http.Client{CheckRedirect: noRedirect} }

// noRedirect returns a redirect as the answer: it would carry secrets elsewhere or turn a POST into a GET.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Post makes a request and reads the answer. An error does not name the URL, which may hold a secret. Every status but
// 2xx is a *StatusError.
func Post(client *http.Client, req *http.Request) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			return nil, retry.WithClass(of.Err, retry.ClassOf(err))
		}
		return nil, err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer)) // the status decides
	if resp.StatusCode/100 == 2 {
		return answer, nil
	}
	e := &StatusError{Status: resp.StatusCode, Class: ClassOf(resp.StatusCode), Detail: Text(string(answer))}
	if resp.StatusCode/100 == 3 {
		e.Detail = "redirects are not followed, set url to the new address"
	}
	return nil, e
}

// AddressError refuses an address of a network that is not public.
type AddressError struct{ Addr netip.Addr }

func (e *AddressError) Error() string { return fmt.Sprintf("%s is not a public address", e.Addr) }

// RetryClass is that of a name that may lead elsewhere later.
func (e *AddressError) RetryClass() retry.Class { return retry.ClassBlocked }

// PublicClient is Client for URLs that outsiders choose. It connects to public addresses only, checked when the name is
// resolved, uses no proxy, which would resolve the name again, and holds few connections. With private, it connects to
// all addresses.
func PublicClient(private bool) *http.Client {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	if !private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("parse address: %w", err)
			}
			return CheckPublic(to.Addr())
		}
	}
	client := Client()
	client.Transport = &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
		MaxIdleConns: 32, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return client
}

// CheckPublic returns an *AddressError for an address that is not reachable from every network, by the registries of
// special-purpose addresses (RFC 6890), and for one that leads to another: of NAT64, 6to4 and Teredo.
func CheckPublic(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	special := func(p netip.Prefix) bool { return p.Contains(a) }
	if !a.IsValid() || a.Is6() && !global6.Contains(a) || slices.ContainsFunc(specialAddresses, special) {
		return &AddressError{a}
	}
	return nil
}

// global6 are the addresses of IPv6 that are assigned to networks.
var global6 = netip.MustParsePrefix("2000::/3")

var specialAddresses = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}
