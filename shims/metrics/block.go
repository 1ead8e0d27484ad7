package metrics

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"

	"github.com/kubecase/kubecase/fixtures"
)

// memory is an index that was read whole.
type memory []byte

// Len implements index.ByteSlice.
func (m memory) Len() int { return len(m) }

// Range implements index.ByteSlice.
func (m memory) Range(start, end int) []byte { return m[start:end] }

// castagnoli is the checksum of chunks.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readBlock adds the samples of a block of Prometheus' TSDB. The readers of Prometheus
// trust what they read; what a hostile block makes of them is an error here. A block
// with tombstones is refused: what they delete isn't known to be deleted otherwise.
func (s *store) readBlock(c *fixtures.Case, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the block is damaged: %v", p)
		}
	}()
	stones, err := c.Document(dir + "tombstones")
	// Magic, version and checksum, and nothing between.
	if err == nil && len(stones) > 9 {
		return errors.New("the block has tombstones; compact it first (promtool tsdb … or Prometheus itself)")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := c.Document(dir + "index")
	if err != nil {
		return err
	}
	reader, err := index.NewReader(memory(data), index.DecodePostingsRaw)
	if err != nil {
		return err
	}
	defer reader.Close()
	name, value := index.AllPostingsKey()
	postings, err := reader.Postings(context.Background(), name, value)
	if err != nil {
		return err
	}
	segments := map[int][]byte{}
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	for postings.Next() {
		if err := reader.Series(postings.At(), &builder, &metas); err != nil {
			return err
		}
		one, err := s.of(builder.Labels())
		if err != nil {
			return err
		}
		for _, meta := range metas {
			chunk, err := chunkOf(c, dir, segments, meta.Ref)
			if err == nil {
				err = s.readChunk(one, chunk)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", one.labels, err)
			}
		}
	}
	return postings.Err()
}

// chunkOf finds a chunk: a length, an encoding, the data and their checksum.
func chunkOf(c *fixtures.Case, dir string, segments map[int][]byte, ref chunks.ChunkRef) (chunkenc.Chunk, error) {
	number, offset := chunks.BlockChunkRef(ref).Unpack()
	segment, ok := segments[number]
	if !ok {
		var err error
		if segment, err = c.Document(fmt.Sprintf("%schunks/%06d", dir, number+1)); err != nil {
			return nil, err
		}
		segments[number] = segment
	}
	if offset < chunks.SegmentHeaderSize || offset >= len(segment) {
		return nil, fmt.Errorf("no chunk is at %d of segment %d", offset, number+1)
	}
	length, n := binary.Uvarint(segment[offset:])
	begin := offset + n
	if n <= 0 || length > math.MaxInt32 || len(segment)-begin < int(length)+1+crc32.Size {
		return nil, fmt.Errorf("the chunk at %d of segment %d is cut", offset, number+1)
	}
	end := begin + 1 + int(length)
	if crc32.Checksum(segment[begin:end], castagnoli) != binary.BigEndian.Uint32(segment[end:]) {
		return nil, fmt.Errorf("the chunk at %d of segment %d has another checksum", offset, number+1)
	}
	return chunkenc.FromData(chunkenc.Encoding(segment[begin]), segment[begin+1:end])
}

func (s *store) readChunk(one *series, chunk chunkenc.Chunk) error {
	it := chunk.Iterator(nil)
	for {
		switch it.Next() {
		case chunkenc.ValNone:
			return it.Err()
		case chunkenc.ValFloat:
			t, v := it.At()
			one.floats = append(one.floats, point{t, v})
		case chunkenc.ValHistogram, chunkenc.ValFloatHistogram:
			t, h := it.AtFloatHistogram(nil)
			one.hists = append(one.hists, histogramPoint{t, h})
		}
		if err := s.count(); err != nil {
			return err
		}
	}
}
