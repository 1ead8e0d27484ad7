package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/shims/tools"
)

func (a *app) newMCP() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp [CASE]",
		Short: "Offer a case's diagnostic tools to an MCP client on standard input and output",
		Long: `Speak the Model Context Protocol on standard input and output: a client that starts
its servers as programs gets the twelve diagnostic tools of a case. Without a CASE
they are those of the episode in which this runs, at KUBECASE_MCP_URL, so that
their use is on its record.

--interface aiopslab offers the actions of AIOpsLab's agents instead, inside an episode:
see 'kubecase aiopslab --help'.`,
		Example:           "  kubecase mcp shop-outage\n  kubecase run shop-outage -- my-agent --mcp-server 'kubecase mcp'",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch of := a.config.GetString("interface"); {
			case of == "aiopslab" && len(args) > 0:
				return usagef("--interface aiopslab takes no CASE: it is for an agent inside 'kubecase run'")
			case of == "aiopslab":
				lab, err := a.aiopslab()
				if err != nil {
					return err
				}
				return a.runMCP(cmd.Context(), lab.MCP())
			case of != "tools":
				return usagef("--interface %q is unknown: use tools or aiopslab", of)
			case len(args) == 0:
				return a.bridgeMCP(cmd.Context())
			}
			o, err := a.servingOptions()
			if err != nil {
				return err
			}
			s, err := a.startServing(o, args)
			if err != nil {
				return err
			}
			v := s.served[0]
			err = a.runMCP(cmd.Context(), a.diagnosticTools(s, v.fixture, v.episode).MCP(cmd.Context()))
			return errors.Join(err, s.stop())
		},
	}
	addServingFlags(c, 0)
	c.Flags().String("interface", "tools", "what is offered: tools (the twelve), aiopslab")
	_ = c.RegisterFlagCompletionFunc("interface", cobra.FixedCompletions([]string{"tools", "aiopslab"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// runMCP serves until standard input ends.
func (a *app) runMCP(ctx context.Context, server *mcp.Server) error {
	err := server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(a.in), Writer: nopWriteCloser{a.out}})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// bridgeMCP passes each use on to the episode in which this runs.
func (a *app) bridgeMCP(ctx context.Context) error {
	url, _ := a.lookup("KUBECASE_MCP_URL")
	if url == "" {
		return usagef("one CASE is expected where KUBECASE_MCP_URL is not set; see 'kubecase mcp --help'")
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "mcp-stdio", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		return fmt.Errorf("KUBECASE_MCP_URL: %w", err)
	}
	defer session.Close()
	return a.runMCP(ctx, tools.MCP(func(ctx context.Context, t *tools.Tool, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return session.CallTool(ctx, &mcp.CallToolParams{Name: t.Name, Arguments: arguments})
	}))
}
