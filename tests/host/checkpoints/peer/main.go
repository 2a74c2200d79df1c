// Open what AOS signed with the libraries of others: notes, cosignatures, and both kinds of proofs.
//
//	peer note VKEY [WITNESS-VKEY]  < note            prints size and root
//	peer leaf INDEX SIZE ROOT PATH < header          checks that the header is in the tree
//	peer tree OLD OLD-ROOT SIZE ROOT PATH            checks that one tree begins the other
package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	formats "github.com/transparency-dev/formats/log"
	cosigned "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	check(err)
	return n
}

func hash(text string) (found tlog.Hash) {
	data, err := base64.StdEncoding.DecodeString(text)
	check(err)
	copy(found[:], data)
	return found
}

func path(text string) (found []tlog.Hash) {
	for _, each := range strings.Fields(text) {
		found = append(found, hash(each))
	}
	return found
}

func main() {
	args := os.Args[2:]
	switch os.Args[1] {
	case "note":
		data, err := io.ReadAll(os.Stdin)
		check(err)
		own, err := note.NewVerifier(args[0])
		check(err)
		witnesses := []note.Verifier{}
		for _, each := range args[1:] {
			witness, err := cosigned.NewVerifierForCosignatureV1(each)
			check(err)
			witnesses = append(witnesses, witness)
		}
		found, _, opened, err := formats.ParseCheckpoint(data, own.Name(), own, witnesses...)
		check(err)
		if len(opened.Sigs) != len(args) {
			check(fmt.Errorf("%d of %d signatures verify", len(opened.Sigs), len(args)))
		}
		fmt.Println(found.Size, base64.StdEncoding.EncodeToString(found.Hash))
	case "leaf":
		header, err := io.ReadAll(os.Stdin)
		check(err)
		check(tlog.CheckRecord(tlog.RecordProof(path(args[3])), number(args[1]), hash(args[2]),
			number(args[0]), tlog.RecordHash(header)))
	case "tree":
		check(tlog.CheckTree(tlog.TreeProof(path(args[4])), number(args[2]), hash(args[3]),
			number(args[0]), hash(args[1])))
	}
}
