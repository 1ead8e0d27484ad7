package recorder

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"sync"

	authnv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Exchange is one request and its answer while they are being recorded. What
// answers the request says through it what can't be seen from outside. Its methods
// may be called on nil, which is what FromContext returns where nothing is recorded.
type Exchange struct {
	log          *Log
	mu           sync.Mutex
	key          any
	user         authnv1.UserInfo
	impersonated *authnv1.UserInfo
	annotations  map[string]string
	// info is what Kubernetes' chain read from the path.
	info *request.RequestInfo
}

type exchangeKey struct{}

// FromContext returns the exchange of a request, nil where it isn't recorded.
func FromContext(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	if x != nil {
		// Whoever asks inside Kubernetes' chain has its RequestInfo, which is not worked out again.
		if info, ok := request.RequestInfoFrom(ctx); ok {
			x.mu.Lock()
			x.info = info
			x.mu.Unlock()
		}
	}
	return x
}

// SameAs says that the bytes that are sent now are those of the kept answer key,
// encoding included, so that their digest is worked out once. Two answers with
// one key must be the same bytes with the same meaning: a key names all that they depend
// on, the offset of the episode's clock included. Keys are compared as map keys
// are; one that can't be is ignored.
func (x *Exchange) SameAs(key any) {
	if x == nil || key == nil || !reflect.TypeOf(key).Comparable() {
		return
	}
	x.mu.Lock()
	x.key = key
	x.mu.Unlock()
}

// Annotate adds an annotation to the exchange's event; see the Key constants. Values
// are cut at 64 KiB; of more than 32 the later ones are left out.
func (x *Exchange) Annotate(key, value string) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.annotations == nil {
		x.annotations = map[string]string{}
	}
	if _, ok := x.annotations[key]; !ok && len(x.annotations) >= annotationsLimit {
		return
	}
	x.annotations[bounded(key, headerLimit)] = bounded(value, annotationLimit)
}

// Annotation is what Annotate put down under a key; empty for nothing.
func (x *Exchange) Annotation(key string) string {
	if x == nil {
		return ""
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.annotations[key]
}

// SetUser says who was authenticated, and as whom they act if they impersonate.
func (x *Exchange) SetUser(user authnv1.UserInfo, impersonated *authnv1.UserInfo) {
	if x == nil {
		return
	}
	x.mu.Lock()
	x.user, x.impersonated = user, impersonated
	x.mu.Unlock()
}

// Through records what is asked over the exchange's own connection, which was taken over, as
// requests of their own, by the same user.
func (x *Exchange) Through(next http.Handler, source Source) http.Handler {
	if x == nil || x.log == nil {
		return next
	}
	return x.log.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, impersonated, _, _ := x.saidOf()
		FromContext(r.Context()).SetUser(user, impersonated)
		next.ServeHTTP(w, r)
	}), source)
}

// keptAs is the key that SameAs was told; nil for none.
func (x *Exchange) keptAs() any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.key
}

// requestInfo is what Kubernetes' chain read from the path; nil while it hasn't.
func (x *Exchange) requestInfo() *request.RequestInfo {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.info
}

// saidOf is what was said so far, of the annotations only their number.
func (x *Exchange) saidOf() (user authnv1.UserInfo, impersonated *authnv1.UserInfo, annotations int, info *request.RequestInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.user, x.impersonated, len(x.annotations), x.info
}

// said returns what was said so far.
func (x *Exchange) said() (key any, user authnv1.UserInfo, impersonated *authnv1.UserInfo, annotations map[string]string, info *request.RequestInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.key, x.user, x.impersonated, maps.Clone(x.annotations), x.info
}
