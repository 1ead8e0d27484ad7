package apiserver

import (
	"bytes"
	"encoding/json"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// textFormat is how captured JSON text is written.
type textFormat int

const (
	notText textFormat = iota
	compactJSON
	prettyJSON
	yamlText
)

// replaySerializer is upstream's serializer, except that captured objects and
// lists are written as the text that was captured where the format is text.
type replaySerializer struct {
	runtime.NegotiatedSerializer
	// custom kinds have no type for watch events in their group either.
	custom bool
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (s replaySerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	out := &replayEncoder{Encoder: s.NegotiatedSerializer.EncoderForVersion(e, gv), format: s.formatOf(e)}
	if s.custom {
		out.events = e
	}
	return out
}

func (s replaySerializer) formatOf(e runtime.Encoder) textFormat {
	for _, info := range s.SupportedMediaTypes() {
		switch {
		case info.MediaType == runtime.ContentTypeYAML && e == info.Serializer:
			return yamlText
		case info.MediaType != runtime.ContentTypeJSON:
		case e == info.PrettySerializer:
			return prettyJSON
		case e == info.Serializer, info.StreamSerializer != nil && e == info.StreamSerializer.Serializer:
			return compactJSON
		}
	}
	return notText
}

type replayEncoder struct {
	runtime.Encoder
	format textFormat
	// events encodes watch events as they are; nil where they have a version.
	events runtime.Encoder
}

// captured is what replayEncoder writes itself.
type captured interface {
	runtime.Object
	json.Marshaler
	toTyped() (runtime.Object, error)
}

// Encode implements runtime.Encoder.
func (e *replayEncoder) Encode(obj runtime.Object, w io.Writer) error {
	if _, ok := obj.(*metav1.WatchEvent); ok && e.events != nil {
		return e.events.Encode(obj, w)
	}
	c, ok := obj.(captured)
	if !ok {
		return e.Encoder.Encode(obj, w)
	}
	if e.format == notText {
		typed, err := c.toTyped()
		if err != nil {
			return err
		}
		return e.Encoder.Encode(typed, w)
	}
	text, err := c.MarshalJSON()
	if err != nil {
		return err
	}
	switch e.format {
	case prettyJSON:
		b := &bytes.Buffer{}
		if err := json.Indent(b, text, "", "  "); err != nil {
			return err
		}
		text = b.Bytes()
	case yamlText:
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	default:
		text = append(text, '\n')
	}
	// One write: the response writer decides from its size whether to compress.
	_, err = w.Write(text)
	return err
}
