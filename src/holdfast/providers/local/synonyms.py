"""Synonyms and related words of general English, one group per line.

Rule 1: a group is about one everyday subject; a word of it may help to find another.
Rule 2: a synonym always weighs less than the word of the question.
"""

from holdfast.providers.local.tokenizer import stem

_GROUPS = """
mother mom mum parent
father dad parent
child kid son daughter baby toddler
son boy
daughter girl
brother sibling
sister sibling
husband wife spouse partner married
boyfriend girlfriend partner
grandmother grandma granny grandparent
grandfather grandpa grandparent
family relative
friend buddy pal
colleague coworker
pet dog puppy cat kitten
dog puppy pup
cat kitten
marry wedding married engaged
home house apartment flat
move relocate
live reside stay
job work career profession employment
boss manager
company firm business startup
study school college university degree course class
exam test
movie film cinema
book novel read author
song music tune band concert
instrument guitar piano violin
game play
sport exercise workout gym fitness
travel trip journey vacation holiday visit tour
country abroad
car vehicle drive
food meal dish cook recipe eat
cook bake recipe
restaurant cafe
drink coffee tea beer wine
doctor hospital clinic
ill sick disease illness
injury hurt injured
health healthy medical
money pay cost price expensive salary
buy purchase shopping
gift present
like love enjoy fond
favorite favourite
hate dislike
hobby interest pastime activity
happy glad joy excited thrilled
sad unhappy upset
afraid fear scared worry anxious
stress stressed overwhelmed pressure
proud pride achievement accomplish
begin start launch
end finish complete stop quit
plan intend goal aim want hope
decide choose decision choice
try attempt
help support assist
learn study
teach lesson instructor teacher
make create build craft
paint painting art draw drawing artwork
write writing story
talk speak chat discuss conversation
call phone
meet meeting
win prize award trophy
competition contest tournament
beach sea ocean
nature outdoors hike hiking camping park forest mountain
garden plant flower grow
birthday party celebrate celebration anniversary
church religion faith spiritual
volunteer charity donate community
problem issue trouble challenge difficulty
fix repair
broken break damage
old age aged
big large huge
small little tiny
fast quick
city town
language speak
name call nickname
allergy allergic
remind remember memory
die death pass lost
key password code
address street
appointment date meeting
"""


def _table() -> dict[str, frozenset[str]]:
    groups = [frozenset(stem(word) for word in line.split()) for line in _GROUPS.strip().splitlines()]
    members = frozenset().union(*groups)
    return {word: frozenset().union(*(group for group in groups if word in group)) - {word} for word in sorted(members)}


SYNONYMS = _table()
