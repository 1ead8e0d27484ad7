package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// authenticateEpisode accepts the token of the episode whose path the request
// came by, and no other; a request without credentials is anonymous.
func (s *Server) authenticateEpisode(req *http.Request) (*authenticator.Response, bool, error) {
	e := episodeFrom(req.Context())
	header := req.Header.Get("Authorization")
	who := e.subject
	switch {
	case header == "":
		who = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	case !e.accepts(bearerToken(header)):
		return nil, false, nil
	}
	s.config.Observer.Authenticated(req.Context(), who)
	return &authenticator.Response{User: who}, true, nil
}

// bearerToken is the token of an Authorization header.
func bearerToken(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
