package remote

import (
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/net/http/httpguts"
)

// CheckURL returns the problem of the URL of an HTTP service in the settings; credentials names the setting for the
// credentials, which must not be in the URL, "" if there is none. An error does not hold the URL, which may hold a
// secret.
func CheckURL(text, credentials string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("must begin with http:// or https:// and have a host")
	case u.User != nil && credentials == "":
		return errors.New("must not contain credentials")
	case u.User != nil:
		return fmt.Errorf("must not contain credentials, set %s", credentials)
	case u.Fragment != "":
		return errors.New("must not have a fragment, which is never sent")
	}
	return nil
}

// CheckHeaderValue refuses a secret that no header can carry. The error does not hold it.
func CheckHeaderValue(raw []byte) error {
	if len(raw) == 0 || !httpguts.ValidHeaderFieldValue(string(raw)) {
		return errors.New("the content is not a valid header value")
	}
	return nil
}

// CheckBaseURL is CheckURL for a URL that paths are added to, which has no query.
func CheckBaseURL(text, credentials string) error {
	err := CheckURL(text, credentials)
	if u, _ := url.Parse(text); err == nil && (u.RawQuery != "" || u.ForceQuery) {
		return errors.New("must not have a query")
	}
	return err
}
