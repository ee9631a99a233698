// What the guests of the bench say.
export const SENTENCE = 'A message of sixty-four bytes, which is what people often send.!';
export const LONG_TEXT = 'All work and no play makes the guest a dull function. '.repeat(76).slice(0, 4096);
export const PARAM = '{"key":"temperature","value":0.5}';
export const FLAGS = '{"set":["O_NONBLOCK"]}';
export const TOOL = '{"name":"sum","description":"Adds two whole numbers.","parameters":{"type":"object"}}';
