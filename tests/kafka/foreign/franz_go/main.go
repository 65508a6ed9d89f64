// franz-go reads what lines on stdin ask for; ReadTasks.java has the words.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const deadline, pause = 10 * time.Second, 30 * time.Millisecond

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		read(os.Args[1], strings.Split(lines.Text(), "\t"), out)
		fmt.Fprintln(out, "end")
	}
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(bootstrap string, words []string, out *bufio.Writer) {
	start, wanted := kgo.NewOffset().At(number(words[3])), int(number(words[5]))
	if words[2] == "time" {
		start = kgo.NewOffset().AfterMilli(number(words[3]))
	}
	isolation := kgo.ReadUncommitted()
	if words[6] == "committed" {
		isolation = kgo.ReadCommitted()
	}
	places := map[string]map[int32]kgo.Offset{words[0]: {int32(number(words[1])): start}}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(places),
		kgo.FetchIsolationLevel(isolation), kgo.FetchMaxWait(10*time.Millisecond))
	check(err)
	defer client.Close()
	end := time.Now().Add(deadline)
	for count := 0; ; {
		left := time.Until(end)
		if count >= wanted {
			left = pause // is there more than there should be?
		}
		wait, stop := context.WithTimeout(context.Background(), left)
		found := client.PollFetches(wait)
		stop()
		if wait.Err() != nil && count >= wanted {
			return
		}
		check(found.Err())
		found.EachRecord(func(record *kgo.Record) {
			count++
			write(record, out)
		})
	}
}

func write(record *kgo.Record, out *bufio.Writer) {
	headers := make([]string, len(record.Headers))
	for place, header := range record.Headers {
		headers[place] = hex.EncodeToString([]byte(header.Key)) + ":" + text(header.Value)
	}
	fmt.Fprintf(out, "%d\t%d\t%d\t%s\t%s\t.%s\t%d\n", record.Offset, record.Attrs.TimestampType(),
		record.Timestamp.UnixMilli(), text(record.Key), text(record.Value), strings.Join(headers, ","), record.LeaderEpoch)
}

func text(data []byte) string {
	if data == nil {
		return "-"
	}
	return hex.EncodeToString(data)
}
