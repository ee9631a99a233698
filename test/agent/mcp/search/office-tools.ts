import type { NamedSearchableTool } from '../../../../src/agent/mcp/search/tool-search.ts';

/** What the tools of an imagined office work on, by server. */
const things = {
  mail: ['message', 'mailbox', 'signature'],
  calendar: ['appointment', 'holiday', 'meeting room'],
  billing: ['invoice', 'refund', 'subscription'],
  support: ['ticket', 'macro', 'survey'],
  warehouse: ['parcel', 'shelf', 'supplier'],
  staff: ['employee', 'vacancy', 'payslip'],
} as const;

/** What is done to them. */
const actions = {
  create: 'Makes a new',
  get: 'Gives everything that is known about one',
  list: 'Names all there are, page by page, of the kind',
  update: 'Changes some fields of one',
  delete: 'Removes for good one',
  archive: 'Puts aside, without removing it, one',
} as const;

const parameters = (thing: string) => ({
  type: 'object',
  properties: {
    id: { type: 'string', description: `which ${thing} is meant; left out where there is none yet` },
    fields: { type: 'object', description: `values of the ${thing} by the names of its fields` },
    page: { type: 'integer', minimum: 1, description: 'the page of a long answer, from one' },
    note: { type: 'string', description: 'a remark that colleagues will read in the history' },
  },
});

/** Enough tools for a search to pay: every action on every thing. */
export const officeTools: readonly NamedSearchableTool[] = Object.entries(things).flatMap(([server, own]) =>
  own.flatMap((thing) =>
    Object.entries(actions).map(([action, words]) => {
      const tool = `${action}_${thing.replace(' ', '_')}`;
      return {
        tool,
        name: `${server}_${tool}`,
        record: { server_id: server, display_name: server },
        description: `${words} ${thing} of the ${server} department.`,
        parameters: parameters(thing),
      };
    }),
  ),
);

export const officeQuestions = [
  { question: 'Bill our customer for March', tools: ['billing/create_invoice'] },
  { question: 'Which parcels are there in the warehouse?', tools: ['warehouse/list_parcel'] },
  { question: 'Remove the meeting room on the second floor', tools: ['calendar/delete_meeting_room'] },
  { question: 'Show me the payslip of last month', tools: ['staff/get_payslip', 'staff/list_payslip'] },
  { question: 'Change the supplier of these screws', tools: ['warehouse/update_supplier'] },
  { question: 'Archive that support ticket', tools: ['support/archive_ticket'] },
] as const;
